// Serves the two browser examples, and passes everything else on to the gateway: to the browser it is one origin, which
// is all that the gateway allows. `node serve.mjs [PORT]`

import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { build } from "esbuild";

const gateway = new URL(process.env.CAUSEWAY_URL ?? "http://127.0.0.1:8787");
const here = import.meta.dirname;
const bundle = await build({
  entryPoints: [join(here, "use-chat.jsx")],
  bundle: true,
  write: false,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "error",
});
const page = async (name) => ["text/html; charset=utf-8", await readFile(join(here, name))];
const files = {
  "/": () => page("use-chat.html"),
  "/event-source": () => page("event-source.html"),
  "/use-chat.js": async () => ["text/javascript; charset=utf-8", bundle.outputFiles[0].contents],
};

const server = createServer(async (incoming, outgoing) => {
  const file = files[new URL(incoming.url, gateway).pathname];
  if (file !== undefined) {
    const [type, body] = await file();
    return outgoing.writeHead(200, { "content-type": type }).end(body);
  }
  const { method, headers } = incoming;
  const options = { host: gateway.hostname, port: gateway.port, path: incoming.url, method, headers: { ...headers, host: gateway.host } };
  const passed = request(options, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing); // byte by byte: a stream must not be held back
  });
  passed.on("error", () => outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end("no gateway\n"));
  outgoing.on("close", () => passed.destroy());
  incoming.pipe(passed);
});
server.listen(Number(process.argv[2] ?? 3000), "127.0.0.1", () => {
  const { port } = server.address();
  console.log(`http://127.0.0.1:${port}/ useChat, http://127.0.0.1:${port}/event-source EventSource`);
});
