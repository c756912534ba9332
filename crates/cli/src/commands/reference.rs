//! `causeway reference`: every setting, metric and error of this build as a page; `docs/reference.md` is that page.
//!
//! Refuses tables of its own: settings are read from the example file, which a test holds to the known keys; metrics
//! from the catalogue that registers them; errors from the sources of their sentences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use causeway_engine::failure::Failure;
use causeway_server::metrics::catalogue;
use clap::ValueEnum;

use crate::exit::Exit;

/// Options of `reference`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  causeway reference > docs/reference.md\n  causeway reference --only metrics"
)]
pub struct Args {
    /// One part, without the headings
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    Settings,
    Metrics,
    Errors,
}

/// Prints the page.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = match args.only {
        None => page(),
        Some(Part::Settings) => settings(EXAMPLE),
        Some(Part::Metrics) => metrics(),
        Some(Part::Errors) => errors(),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Clean)
}

const EXAMPLE: &str = include_str!("../../../../causeway.example.toml");
const ERRORS: &str = include_str!("../../../../docs/errors.md");

fn page() -> String {
    format!(
        "# Reference\n\nMade by `causeway reference`; a test holds this page to the build.\n\n\
         ## Settings\n\
         As [causeway.example.toml](../causeway.example.toml) explains them. `*` stands for a name of your choice. Durations: 250ms, 30s, 15m,\n\
         1h30m, 7d. Sizes: 64KiB, 2MiB, bytes. In the environment `server.listen` is `CAUSEWAY_SERVER__LISTEN`.\n\n{}\n\
         ## Metrics\nWhat they are for, and alerts: [metrics.md](metrics.md).\n\n{}\n\
         ## Errors\nWhat to do about each: [errors.md](errors.md).\n\n{}",
        settings(EXAMPLE),
        metrics(),
        errors()
    )
}

/// A key of the example: where it stands, what it is set to there, and what is said of it.
struct Setting {
    path: String,
    value: String,
    meaning: String,
    /// Whether it is commented out: then what stands there is an example, and there is no default.
    off: bool,
}

fn settings(example: &str) -> String {
    let mut seen = BTreeMap::new();
    let mut table = String::from("| setting | default or example | meaning |\n|---|---|---|\n");
    for setting in read(example) {
        if seen.insert(setting.path.clone(), ()).is_some() {
            continue;
        }
        let value = if setting.off {
            format!("none, e.g. `{}`", setting.value)
        } else {
            format!("`{}`", setting.value)
        };
        let _ = writeln!(table, "| `{}` | {} | {} |", setting.path, cell(&value), cell(&setting.meaning));
    }
    table
}

/// The keys of an example file in their order.
fn read(example: &str) -> Vec<Setting> {
    let mut table = String::new();
    let mut all = Vec::new();
    for line in example.lines() {
        // A table that is commented out has keys that are.
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if let Some(header) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = generic(header);
            continue;
        }
        let (off, text) = match line.strip_prefix("# ") {
            Some(text) => (true, text),
            None => (false, line),
        };
        let Some((key, rest)) = text.split_once(" = ") else { continue };
        if !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
            continue; // a sentence that happens to hold the sign
        }
        if off
            && rest
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
                .is_some_and(|(_, rest)| rest.starts_with(':'))
        {
            continue; // a sentence that begins with a setting
        }
        let (value, meaning) = match rest.split_once(" # ") {
            Some((value, meaning)) => (value.trim_end(), meaning.trim()),
            None => (rest.trim_end(), ""),
        };
        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        all.push(Setting { path, value: value.to_owned(), meaning: meaning.to_owned(), off });
    }
    all
}

/// The path of a table with the names that a user chooses replaced.
fn generic(header: &str) -> String {
    let mut parts: Vec<&str> = header.split('.').collect();
    for at in 1..parts.len() {
        let chosen = match parts.get(at - 1) {
            Some(&"agents") => at == 1 || parts.first() == Some(&"auth"),
            Some(&"tools" | &"subjects") => true,
            Some(_) | None => false,
        };
        if chosen && let Some(part) = parts.get_mut(at) {
            *part = "*";
        }
    }
    parts.join(".")
}

fn metrics() -> String {
    let mut table = String::from("| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n");
    for metric in catalogue() {
        let labels: Vec<String> =
            metric.labels.iter().map(|(name, values)| format!("`{name}`: {values}")).collect();
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} |",
            metric.name,
            metric.kind.as_str(),
            metric.unit,
            cell(&labels.join("; ")),
            cell(metric.help)
        );
    }
    table
}

fn errors() -> String {
    let mut codes: BTreeMap<&str, bool> = causeway_adapter::failure_codes().collect();
    for failure in Failure::ALL {
        let public = failure.public();
        codes.insert(public.code, public.retryable);
    }
    let mut out = String::from("Codes of `run.error`:\n\n| code | retryable |\n|---|---|\n");
    for (code, retryable) in codes {
        let _ = writeln!(out, "| `{code}` | {} |", if retryable { "yes" } else { "no" });
    }
    out.push_str("\nRefusals, by status:\n\n| status, code |\n|---|\n");
    let refusals = ERRORS.split("## Refusals").nth(1).and_then(|rest| rest.split("\n## ").next());
    for row in refusals.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| ")) {
        if row.starts_with(|c: char| c.is_ascii_digit()) {
            let _ = writeln!(out, "| {} |", row.split(" | ").next().unwrap_or_default());
        }
    }
    out
}

/// Text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use causeway_server::config::schema;

    use super::*;

    const BLESS: &str = "cargo run -p causeway-cli -- reference > docs/reference.md";

    #[test]
    fn the_page_of_the_documents_is_that_of_this_build() {
        let written = include_str!("../../../../docs/reference.md");
        assert!(written == page(), "docs/reference.md is out of date; run: {BLESS}");
    }

    #[test]
    fn the_page_of_metrics_holds_the_table_of_this_build() {
        let written = include_str!("../../../../docs/metrics.md");
        let table =
            written.split("<!-- table -->\n").nth(1).and_then(|rest| rest.split("<!-- end -->").next());
        let same = table == Some(metrics().as_str());
        assert!(
            same,
            "docs/metrics.md is out of date; put `causeway reference --only metrics` between its marks"
        );
    }

    #[test]
    fn the_settings_are_the_known_keys_and_no_other() {
        let shown: BTreeSet<String> = read(EXAMPLE).into_iter().map(|setting| setting.path).collect();
        // Tables whose keys are the user's stand in the example as one key.
        let known: BTreeSet<String> = schema::paths()
            .into_iter()
            .map(|path| path.strip_suffix(".*").unwrap_or(&path).to_owned())
            .collect();
        let missing: Vec<&String> =
            known.difference(&shown).filter(|path| !path.ends_with("allow_config_override")).collect();
        assert_eq!(missing, [] as [&String; 0], "not in causeway.example.toml");
        assert_eq!(shown.difference(&known).collect::<Vec<_>>(), [] as [&String; 0], "not known");
    }

    #[test]
    fn every_setting_but_the_plain_bounds_says_what_it_means() {
        for setting in read(EXAMPLE) {
            let last = setting.path.rsplit('.').next().unwrap_or_default().to_owned();
            let plain = setting.path.contains(".limits.")
                || ["env", "command", "argv", "file", "url", "schema", "schema_json", "headers", "harness"]
                    .contains(&last.as_str());
            assert!(plain || !setting.meaning.is_empty(), "{} has no comment", setting.path);
        }
    }
}
