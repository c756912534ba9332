//! House rules as checks: `cargo xtask tidy`, and `cargo xtask bless schema` to repair what it complains about.
//!
//! Every finding names the file and the repair. Nothing here changes a file except `bless`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod logs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy"] => tidy(),
        ["bless", "schema"] => bless_schema(),
        _ => {
            eprintln!("usage: cargo xtask tidy | cargo xtask bless schema");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn root() -> anyhow::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .context("xtask stands in no workspace")
}

fn tidy() -> anyhow::Result<ExitCode> {
    let tree = tidy::Tree::read(&root()?)?;
    let findings = tidy::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to mend", tree.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!("tidy: {} findings", findings.len());
        Ok(ExitCode::from(1))
    }
}

fn bless_schema() -> anyhow::Result<ExitCode> {
    let path = root()?.join(tidy::SCHEMA);
    std::fs::write(&path, tidy::schema_text()).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(ExitCode::SUCCESS)
}
