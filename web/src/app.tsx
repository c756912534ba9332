// The frame around every view: navigation, the run's head, what the keyboard does, what just happened.
import { signal } from "@preact/signals";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { declineSignIn, hasToken, session, signIn, signInDeclined, tokenWanted } from "./api";
import { Modal } from "./components/modal";
import { Empty, Failure } from "./components/states";
import { bindings, useKeys } from "./keys";
import { RunFrame } from "./run-frame";
import { href, navigate, route } from "./router";
import { isDark, theme, toggleTheme } from "./theme";
import { dismiss, toasts } from "./toast";
import { topViews } from "./views/registry";

const helpShown = signal(false);

/** A view that fails says so and leaves the rest alone. */
class Guarded extends Component<{ readonly children: ComponentChildren; readonly place: string }, { error: unknown; place: string }> {
  override state = { error: null as unknown, place: this.props.place };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error, place: this.props.place });
  }

  override render(): ComponentChildren {
    const { error, place } = this.state;
    if (error !== null && place === this.props.place) return <Failure error={error} retry={() => this.setState({ error: null })} />;
    return this.props.children;
  }
}

export function App(): JSX.Element {
  const { path } = route.value;
  const name = path[0] ?? "runs";
  const runId = name === "run" ? path[1] : undefined;
  const view = topViews.find((one) => one.name === name);
  const first = topViews.filter((one) => one.order !== null);

  useKeys([
    { key: "?", does: "Show or hide this help", run: () => (helpShown.value = !helpShown.value) },
    { key: "Escape", does: "Close what is open", run: () => (helpShown.value = false) },
    ...first.slice(0, 9).map((one, index) => ({
      key: String(index + 1),
      does: one.title,
      run: () => navigate(href([one.name])),
    })),
  ]);
  useEffect(() => {
    document.title = runId ? `${runId.slice(0, 18)} · Causeway` : `${view?.title ?? "Inspector"} · Causeway`;
  }, [runId, view]);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="#/runs" aria-label="Causeway, all runs">
          <svg viewBox="0 0 24 16" width="24" height="16" aria-hidden="true" focusable="false">
            <path d="M1 13h22M4 13V8m5 5V4m6 9V4m5 9V8" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
            <path d="M1 9c4 0 5-6 11-6s7 6 11 6" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" />
          </svg>
          <span>Causeway</span>
        </a>
        <nav class="top-nav" aria-label="Inspector">
          {first.map((one) => (
            <a key={one.name} href={href([one.name])} aria-current={one.name === name || (runId && one.name === "runs") ? "page" : undefined}>
              {one.title}
              {one.badge && <one.badge />}
            </a>
          ))}
        </nav>
        <div class="top-tools">
          {hasToken() && session.value >= 0 && (
            <button type="button" class="button quiet" onClick={() => signIn(null)}>
              Sign out
            </button>
          )}
          {signInDeclined.value && (
            <button type="button" class="button quiet" onClick={() => (tokenWanted.value = true)}>
              Sign in
            </button>
          )}
          <ThemeButton />
          <button type="button" class="button quiet icon" aria-label="Keyboard help" onClick={() => (helpShown.value = !helpShown.value)}>
            ?
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Guarded place={path.join("/")}>
          {runId ? (
            <RunFrame key={`${runId} ${session.value}`} runId={runId} viewName={path[2] ?? null} />
          ) : view ? (
            <view.component key={session.value} />
          ) : (
            <Empty title="There is no such page">
              <a href="#/runs">All runs</a>
            </Empty>
          )}
        </Guarded>
      </main>
      <Toasts />
      {helpShown.value && <Help />}
      {tokenWanted.value && <TokenPrompt />}
    </>
  );
}

function ThemeButton(): JSX.Element {
  theme.value;
  return (
    <button type="button" class="button quiet icon" onClick={toggleTheme} aria-label={isDark() ? "Use light colours" : "Use dark colours"}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
      </svg>
    </button>
  );
}

function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={`toast toast-${one.tone}`}>
          <span>{one.text}</span>
          <button type="button" class="button quiet icon" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowDown: "↓",
  ArrowUp: "↑",
  ArrowLeft: "←",
  ArrowRight: "→",
  PageDown: "Page ↓",
  PageUp: "Page ↑",
  Escape: "Esc",
  " ": "Space",
};

function Help(): JSX.Element {
  const all = bindings();
  return (
    <Modal label="Keyboard" onClose={() => (helpShown.value = false)}>
      <h2>Keyboard</h2>
      <dl class="keys">
        {all.map((binding) => (
          <div key={binding.key}>
            <dt>
              <kbd>{NAMES[binding.key] ?? binding.key}</kbd>
            </dt>
            <dd>{binding.does}</dd>
          </div>
        ))}
      </dl>
      <button type="button" class="button" autofocus onClick={() => (helpShown.value = false)}>
        Close
      </button>
    </Modal>
  );
}

function TokenPrompt(): JSX.Element {
  const [text, setText] = useState("");
  return (
    <Modal label="Sign in" onClose={declineSignIn}>
      <h2>This gateway wants a token</h2>
      {hasToken() && (
        <p role="alert" class="tone-bad">
          The last token was refused.
        </p>
      )}
      <p>It is sent as a bearer token with every request of this tab, and forgotten when the tab is closed.</p>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          signIn(text.trim());
        }}
      >
        <label>
          Token
          <input type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus />
        </label>
        <div class="row-of-buttons">
          <button type="submit" class="button primary">
            Use it
          </button>
          <button type="button" class="button" onClick={declineSignIn}>
            Not now
          </button>
        </div>
      </form>
    </Modal>
  );
}
