//! Configuration from text to settings.

use super::*;

const SMALL: &str = "[agents.tour]\nharness = \"deepagents\"\ndriver.recording.file = \"tour.jsonl\"\n";

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(text, environment, &Overrides::default())
        .map_err(|findings| findings.iter().map(ToString::to_string).collect())
}

fn refused(text: &str, environment: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(load(text, environment).unwrap_err(), expected, "{text}");
}

#[test]
fn nothing_given_is_a_loopback_gateway_without_agents() {
    let config = load("", &[]).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8787");
}

#[test]
fn flags_outrank_the_environment_which_outranks_the_file() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n[store]\npath = \"a\"\n";
    let environment =
        [("CAUSEWAY_SERVER__LISTEN", "127.0.0.1:2"), ("CAUSEWAY_STORE__PATH", "b"), ("CAUSEWAY_HOME", "x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flags = Overrides { listen: Some("localhost:3".to_owned()), data: None };
    let config = Config::load(file, environment, &flags).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.store.path, PathBuf::from("b"));
}

#[test]
fn the_environment_reaches_agents_numbers_flags_and_lists() {
    let config = load(
        SMALL,
        &[
            ("CAUSEWAY_AGENTS__TOUR__STREAM_ARGUMENTS", "true"),
            ("CAUSEWAY_AGENTS__TOUR__LIMITS__TOOL_CALLS", "7"),
            ("CAUSEWAY_SERVER__HOSTS", "a.example, b.example"),
        ],
    )
    .unwrap();
    let agent = &config.agents["tour"];
    assert!(agent.stream_arguments);
    assert_eq!(agent.limits, Limits { tool_calls: 7, ..Limits::DEFAULT });
    assert_eq!(config.server.hosts, ["a.example", "b.example"]);
}

#[test]
fn an_unknown_variable_is_refused_like_an_unknown_key() {
    refused(
        "",
        &[("CAUSEWAY_SERVER__LISTN", "x")],
        &[
            "environment CAUSEWAY_SERVER__LISTN: server.listn: is not a known key; did you mean `server.listen`?",
        ],
    );
}

#[test]
fn without_auth_only_loopback_may_listen() {
    for listen in ["0.0.0.0:80", "[::]:80", "192.168.1.4:80"] {
        let text = format!("[server]\nlisten = \"{listen}\"\n");
        let findings = load(&text, &[]).unwrap_err();
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with(&format!("line 2: server.listen: {listen} can be reached")),
            "{findings:?}"
        );
    }
    for listen in ["127.0.0.1:0", "[::1]:80", "127.9.9.9:1"] {
        load(&format!("[server]\nlisten = \"{listen}\"\n"), &[]).unwrap();
    }
}

#[test]
fn every_fault_is_told_at_once() {
    refused(
        "[server]\nlisten = 3\nkeep_alive = \"soon\"\nmax_body = \"1GiB\"\n[store]\nkind = \"paper\"\n\
         [agents.a]\nthread = \"cotton\"\ndeadline = \"0s\"\n",
        &[],
        &[
            "line 4: server.max_body: is no size from 1KiB to 64MiB; write e.g. \"2MiB\"",
            "line 3: server.keep_alive: is no duration; write e.g. \"30s\", \"15m\" or \"1h30m\"",
            "line 2: server.listen: is a number, but a string is expected here",
            "line 6: store.kind: `paper` is unknown; use \"sqlite\", \"postgres\" or \"memory\"",
            "agents.a: `harness` is missing; name the harness whose stream the driver delivers, e.g. \"deepagents\"",
            "agents.a: exactly one driver is needed: `driver.process`, `driver.http` or `driver.recording`",
        ],
    );
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    let findings = load("[server]\nlisten = \n", &[]).unwrap_err();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with("line 2: not TOML: "), "{findings:?}");
}

#[test]
fn a_secret_in_plain_text_is_refused_and_a_reference_is_not() {
    let agent = |env: &str| {
        format!(
            "[agents.a]\nharness = \"deepagents\"\n[agents.a.driver.process]\ncommand = [\"x\"]\nenv = {env}\n"
        )
    };
    refused(
        &agent("{ OPENAI_API_KEY = \"sk-1\" }"),
        &[],
        &[
            "line 5: agents.a.driver.process.env.OPENAI_API_KEY: looks like a secret and stands here in plain \
           text; write { env = \"VARIABLE\" } or { file = \"PATH\" }",
        ],
    );
    let config =
        load(&agent("{ OPENAI_API_KEY = { env = \"KEY\" }, LOG = \"info\", T = { file = \"t\" } }"), &[]);
    let Driver::Process(process) = &config.unwrap().agents["a"].driver else { panic!("no process") };
    assert_eq!(
        process.env,
        BTreeMap::from([
            ("LOG".to_owned(), EnvValue::Plain("info".to_owned())),
            ("OPENAI_API_KEY".to_owned(), EnvValue::Env("KEY".to_owned())),
            ("T".to_owned(), EnvValue::File(PathBuf::from("t"))),
        ])
    );
}

#[test]
fn an_endpoint_is_named_without_secrets() {
    let agent = |http: &str| format!("[agents.a]\nharness = \"agui\"\n[agents.a.driver.http]\n{http}\n");
    let first = "line 4: agents.a.driver.http";
    let plain = "stands here in plain text; write { env = \"VARIABLE\" } or { file = \"PATH\" }";
    let ours = "is no header, or one that the gateway writes itself";
    let credentials = "holds credentials; name them by reference in `bearer` or `headers`";
    for (http, finding) in [
        ("url = \"https://u:canary@a.example/\"", format!("{first}.url: {credentials}")),
        ("url = \"a.example\"", format!("{first}.url: must begin with http:// or https://")),
        ("bearer = \"canary\"\nurl = \"http://a\"", format!("{first}.bearer: {plain}")),
        ("headers.x-key = \"canary\"\nurl = \"http://a\"", format!("{first}.headers.x-key: {plain}")),
        ("headers.Host = { env = \"H\" }\nurl = \"http://a\"", format!("{first}.headers.Host: {ours}")),
        (
            "body = \"[1]\"\nurl = \"http://a\"",
            format!("{first}.body: is no JSON object; write e.g. '{{\"model\": \"…\"}}'"),
        ),
        (
            "bearer = { env = \"T\" }",
            "agents.a.driver.http: `url` is missing; name the endpoint, e.g. \"https://agents.example/run\""
                .to_owned(),
        ),
    ] {
        refused(&agent(http), &[], &[&finding]);
    }
}

const SERVICE: &str =
    "[auth]\nmode = \"service\"\ntokens = { web = { file = \"w\" }, \"o dd\" = { env = \"O\" } }\n";
const JWT: &str = "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"https://id.example\"\naudience = [\"a\", \"b\"]\n\
                   algorithms = [\"RS256\", \"EdDSA\"]\n";

#[test]
fn who_may_call_is_read_and_shown_again() {
    let service = format!(
        "{SERVICE}metrics = \"open\"\nunlisted_agents = \"closed\"\nsubject_header = \"X-User\"\n\
         [auth.agents.tour]\nsubjects = [\"alice\"]\ntokens = [\"web\"]\n{SMALL}"
    );
    let file = format!("{JWT}jwks_file = \"k\"\n[auth.agents.tour]\ngroups = [\"g\"]\n{SMALL}");
    let url = format!(
        "{JWT}jwks_url = \"https://id.example/k?v=1\"\nca_file = \"ca\"\nleeway = \"60s\"\ngroups_claim = \"r\"\n\
         refresh = \"1m\"\nkeep = \"7d\"\ntimeout = \"1s\"\n"
    );
    for text in [&service, &file, &url] {
        let config = load(text, &[]).unwrap();
        assert_eq!(load(&config.show(), &[]).unwrap(), config, "{}", config.show());
        // With a check of who calls, other machines may.
        let listen = [("CAUSEWAY_SERVER__LISTEN", "0.0.0.0:80")];
        assert_eq!(load(text, &listen).unwrap().server.listen.to_string(), "0.0.0.0:80");
    }
    let AuthMode::Service(read) = load(&service, &[]).unwrap().auth.mode else { panic!("no service") };
    assert_eq!(read.subject_header, "x-user");
    assert_eq!(read.tokens["web"], EnvValue::File(PathBuf::from("w")));
}

#[test]
fn a_check_that_would_be_worth_nothing_is_refused() {
    for (text, finding) in [
        (
            "[auth]\nmode = \"basic\"\n",
            "line 2: auth.mode: `basic` is unknown; use \"none\" or \"service\" or \"jwt\"",
        ),
        ("[auth]\nmode = \"service\"\n", "auth: mode \"service\" needs tokens;"),
        (
            "[auth]\nmode = \"service\"\ntokens.web = \"canary\"\n",
            "line 3: auth.tokens.web: stands here in plain text;",
        ),
        (
            "[auth]\ntokens.web = { env = \"W\" }\n",
            "line 2: auth.tokens: is without effect unless auth.mode is",
        ),
        ("[auth]\nmetrics = \"open\"\n", "line 2: auth.metrics: is without effect while auth.mode is"),
        ("[auth]\nmode = \"jwt\"\n", "line 2: auth.mode: needs the table [auth.jwt]"),
        (&format!("{JWT}jwks_file = \"k\"\nleeway = \"61s\"\n"), "line 8: auth.jwt.leeway: is more than 60s"),
        (
            &format!("{JWT}jwks_file = \"k\"\nkeep = \"8d\"\n"),
            "line 8: auth.jwt.keep: must be from `refresh` to 7d",
        ),
        (
            &format!("{JWT}jwks_file = \"k\"\nkeep = \"9m\"\n"),
            "line 8: auth.jwt.keep: must be from `refresh` to 7d",
        ),
        (JWT, "auth.jwt: exactly one of `jwks_url` and `jwks_file` is needed"),
        (&format!("{JWT}jwks_url = \"http://id.example/k\"\n"), "line 7: auth.jwt.jwks_url: must be https:"),
        (
            &format!("{JWT}jwks_url = \"https://u:canary@id.example/k\"\n"),
            "line 7: auth.jwt.jwks_url: holds credentials;",
        ),
        (
            &JWT.replace("\"EdDSA\"]", "\"HS256\"]\njwks_file = \"k\""),
            "line 6: auth.jwt.algorithms: `HS256` is not taken;",
        ),
        (
            &JWT.replace("\"EdDSA\"]", "\"none\"]\njwks_file = \"k\""),
            "line 6: auth.jwt.algorithms: `none` is not taken;",
        ),
        (
            &format!("{SERVICE}[auth.agents.tuor]\nsubjects = [\"a\"]\n{SMALL}"),
            "auth.agents.tuor: is no agent of this configuration;",
        ),
        (
            &format!("{SERVICE}[auth.agents.tour]\ntokens = [\"wbe\"]\n{SMALL}"),
            "line 5: auth.agents.tour.tokens: `wbe` is no token of auth.tokens",
        ),
        (
            &format!("{SERVICE}[auth.agents.tour]\ngroups = [\"g\"]\n{SMALL}"),
            "line 5: auth.agents.tour.groups: is without effect unless auth.mode is \"jwt\"",
        ),
        (
            &format!("{SERVICE}subject_header = \"authorization\"\n"),
            "line 4: auth.subject_header: is no header, or one that means something else",
        ),
    ] {
        let findings = load(text, &[]).unwrap_err();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with(finding) && !findings[0].contains("canary"), "{findings:?}");
    }
}

#[test]
fn what_show_prints_reads_back_the_same() {
    let text = "[server]\nhosts = [\"a\\\"b\"]\n[agents.\"odd name\"]\nname = \"Ödd\"\nharness = \"deepagents\"\n\
                limits = { tool_calls = 3, run_bytes = \"1MiB\", interrupt_bytes = 77 }\n\
                driver.process = { command = [\"a\", \"b\\\\c\"], scope = \"run\", env = { A = \"1\", B = { file = \"f\" } } }\n\
                [agents.tour]\nharness = \"deepagents\"\nthread = \"ephemeral\"\non_disconnect = \"cancel\"\n\
                terminal_escapes = \"strip\"\nredact_content = true\ninterrupt_expiry = \"7d\"\n\
                driver.recording = { file = \"x\", pace = \"20ms\" }\n\
                [agents.far]\nharness = \"agui\"\ndriver.http = { url = \"https://a.example/x?y\", request = \"agui\", \
                body = '{\"a\":\"\\u00e9\"}', bearer = { env = \"T\" }, headers = { X-Key = { file = \"k\" } }, ca_file = \"ca\", \
                keeps_threads = true, plaintext = true, connect_timeout = \"1s\", response_timeout = \"2s\", \
                idle_timeout = \"3s\", total_timeout = \"4s\", max_body = \"5KiB\" }\n";
    let config = load(text, &[]).unwrap();
    assert_eq!(load(&config.show(), &[]).unwrap(), config, "{}", config.show());
}

#[test]
fn tools_that_the_gateway_runs_are_read_as_they_are_shown() {
    let text = "[agents.a]\nharness = \"deepagents\"\ndriver.process.command = [\"w\"]\ntools_from = \"mcp.json\"\n\
                [agents.a.tools.\"one two\"]\nschema = \"s.json\"\napproval = \"always\"\nsensitive = true\ntimeout = \"3s\"\n\
                max_output = \"4KiB\"\ninvoke.command = { argv = [\"a\", \"b c\"], env = { A = \"1\", API_KEY = { env = \"K\" } } }\n\
                [agents.a.tools.far]\nschema_json = '{\"type\":\"object\"}'\napproval = \"never\"\n\
                invoke.http = { url = \"https://t.example/x\", bearer = { file = \"t\" }, headers = { X-K = { env = \"K\" } }, \
                ca_file = \"ca\", plaintext = true, connect_timeout = \"1s\", response_timeout = \"2s\" }\n\
                [agents.a.tools.listed]\ninvoke.command.argv = [\"x\"]\n[agents.a.tools.checked]\nschema = \"c.json\"\n";
    let config = load(text, &[]).unwrap();
    assert_eq!(load(&config.show(), &[]).unwrap(), config, "{}", config.show());
    assert_eq!(config.agents["a"].tools.len(), 4);
}

#[test]
fn a_tool_that_cannot_be_run_is_refused_with_the_remedy() {
    let agent = "[agents.a]\nharness = \"deepagents\"\ndriver.process.command = [\"w\"]\n[agents.a.tools.t]\nschema = \"s\"\n";
    for (more, expected) in [
        (
            "approval = \"often\"\ninvoke.command.argv = [\"x\"]",
            "line 6: agents.a.tools.t.approval: `often` is unknown; use \"never\" or \"sensitive\" or \"always\"",
        ),
        (
            "timeout = \"1s\"",
            "line 6: agents.a.tools.t.timeout: says something of a tool that the gateway runs; say with `invoke` what runs it",
        ),
        ("invoke = {}", "agents.a.tools.t.invoke: exactly one is needed: `invoke.command` or `invoke.http`"),
        (
            "invoke.command.env = { A = \"1\" }",
            "agents.a.tools.t.invoke.command: `argv` is missing; write it as [\"PROGRAM\", \"ARGUMENT\", …]; no shell reads it",
        ),
        (
            "schema_json = '{}'",
            "agents.a.tools.t: `schema` and `schema_json` are the same thing twice; leave one out",
        ),
        (
            "invoke.command = { argv = [\"x\"], env = { API_KEY = \"k\" } }",
            "line 6: agents.a.tools.t.invoke.command.env.API_KEY: looks like a secret and stands here in plain text; write { env = \"VARIABLE\" } or { file = \"PATH\" }",
        ),
    ] {
        refused(&format!("{agent}{more}\n"), &[], &[expected]);
    }
}

#[test]
fn every_limit_of_the_contract_has_a_key() {
    let mut limits = Limits::DEFAULT;
    let named = read::bytes_of(&mut limits).len() + read::counts_of(&mut Limits::DEFAULT.clone()).len() + 2;
    let in_schema = schema::paths().iter().filter(|path| path.starts_with("agents.*.limits.")).count();
    // The debug form lists every field once: a new limit shows up here.
    let in_contract = format!("{:?}", Limits::DEFAULT).matches(": ").count();
    assert_eq!((named, in_schema), (in_contract, in_contract));
}

#[test]
fn show_prints_every_bound_though_nobody_set_it() {
    let agent = "[agents.a]\nharness = \"deepagents\"\ndriver.process = { command = [\"x\"] }\n";
    let shown = load(agent, &[]).unwrap().show();
    let (server, limits) = shown.split_once("[agents.a.limits]").unwrap();
    let paths = schema::paths();
    let of = |table: &'static str| paths.iter().filter_map(move |path| path.strip_prefix(table));
    for key in of("agents.*.limits.") {
        assert!(limits.contains(&format!("\n{key} = ")), "{key}: {shown}");
    }
    for key in of("server.").chain(of("retention.")).filter(|key| *key != "delete_after") {
        assert!(server.contains(&format!("\n{key} = ")), "{key}: {shown}");
    }
    for key in of("agents.*.driver.process.").filter(|key| *key != "env.*") {
        assert!(limits.contains(&format!("\n{key} = ")), "{key}: {shown}");
    }
}

#[test]
fn shared_mode_names_its_database_and_never_a_password() {
    let file = "[store]\nkind = \"postgres\"\n";
    let whole = format!(
        "{file}[store.postgres]\nhost = \"db.example\"\nuser = \"u\"\ndatabase = \"d\"\n\
         password = {{ env = \"DB_PASSWORD\" }}\nca_file = \"ca.pem\"\n"
    );
    let config = load(&whole, &[]).unwrap();
    assert_eq!(config.store.kind, StoreKind::Postgres);
    let postgres = config.store.postgres.clone().unwrap();
    assert_eq!(
        (postgres.port, postgres.tls.as_str(), postgres.schema.as_str()),
        (5432, "verify-full", "causeway")
    );
    assert_eq!(postgres.password, Some(EnvValue::Env("DB_PASSWORD".to_owned())));
    assert_eq!(load(&config.show(), &[]), Ok(config));
    for (file, finding) in [
        (file.to_owned(), "\"postgres\" needs a [store.postgres] with host, user and database"),
        (format!("{file}[store.postgres]\nhost = \"h\"\nuser = \"u\"\n"), "`database` is missing"),
        (whole.replace("{ env = \"DB_PASSWORD\" }", "\"hunter2\""), "plain text"),
        (format!("{whole}tls = \"prefer\"\n"), "`prefer` is unknown"),
        (format!("{whole}schema = \"A-b\"\n"), "must be 1 to 48 of a-z, 0-9 and _"),
    ] {
        let findings = format!("{:?}", load(&file, &[]).unwrap_err());
        assert!(findings.contains(finding.replace('"', "\\\"").as_str()), "{findings}");
        assert!(!findings.contains("hunter2"), "{findings}");
    }
}

#[test]
fn the_example_is_valid_and_shows_every_key() {
    let text = include_str!("../../../../causeway.example.toml");
    let config = load(text, &[]).unwrap();
    assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["far", "helper", "tour"]);
    assert_eq!(config.server, Server::default());
    assert_eq!(config.agents["tour"].limits, Limits::DEFAULT);
    for path in schema::paths() {
        // Keys of parts that later versions bring are refused today, so an example cannot show them.
        let later = ["allow_config_override", "env.*", "headers.*", "tokens.*"];
        let key = path.rsplit('.').next().unwrap();
        assert!(
            text.contains(&format!("{key} = ")) || later.iter().any(|end| path.ends_with(end)),
            "causeway.example.toml does not show {path}"
        );
    }
}
