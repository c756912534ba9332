//! The raw settings: a tree of values that remember where each came from (a line of the file, the environment, a flag).
//!
//! Refuses to interpret: kinds and names are the business of `schema` and `read`.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};

/// Prefix of the environment variables that hold settings.
pub const ENV_PREFIX: &str = "CAUSEWAY_";

/// Where a value was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A line of the configuration file, from 1.
    Line(usize),
    /// An environment variable.
    Env(String),
    /// A command line flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// What was written.
    pub value: Value,
    /// Where.
    pub origin: Origin,
}

/// The kinds of TOML that settings use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Flag(bool),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Tree),
    /// A float or a date: no setting is one.
    Other(&'static str),
}

impl Value {
    /// What to call this kind in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// A table of settings.
pub type Tree = BTreeMap<String, Node>;

/// A file that is no TOML.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// What the TOML reader says.
    pub message: String,
}

/// Reads the text of a configuration file.
///
/// # Errors
/// [`SyntaxError`] when the text is no TOML.
pub fn parse(text: &str) -> Result<Tree, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().lines().collect::<Vec<_>>().join(", "),
    })?;
    Ok(table_of(text, table.get_ref()))
}

/// Lays the variables `CAUSEWAY_A__B=value` over the tree; names without `__` are not settings.
///
/// `known` answers how a segment of a path is spelled (an agent's name in capitals, say).
pub fn overlay_env(
    tree: &mut Tree,
    variables: impl IntoIterator<Item = (String, String)>,
    known: impl Fn(&Tree, &[String], &str) -> String,
) {
    for (name, value) in variables {
        let Some(path) = name.strip_prefix(ENV_PREFIX) else { continue };
        if !path.contains("__") {
            continue;
        }
        let mut spelled: Vec<String> = Vec::new();
        for segment in path.split("__") {
            let next = known(tree, &spelled, segment);
            spelled.push(next);
        }
        let node = Node { value: Value::Text(value), origin: Origin::Env(name.clone()) };
        insert(tree, &spelled, node);
    }
}

/// Puts `node` at `path`; tables on the way are made, anything else on the way is replaced.
pub fn insert(tree: &mut Tree, path: &[String], node: Node) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        tree.insert(first.clone(), node);
        return;
    }
    let entry = tree
        .entry(first.clone())
        .or_insert_with(|| Node { value: Value::Table(Tree::new()), origin: node.origin.clone() });
    if !matches!(entry.value, Value::Table(_)) {
        *entry = Node { value: Value::Table(Tree::new()), origin: node.origin.clone() };
    }
    if let Value::Table(inner) = &mut entry.value {
        insert(inner, rest, node);
    }
}

fn table_of(text: &str, table: &DeTable<'_>) -> Tree {
    table
        .iter()
        .map(|(key, value)| {
            let origin = Origin::Line(line_of(text, key.span().start));
            (key.get_ref().to_string(), Node { value: value_of(text, value.get_ref()), origin })
        })
        .collect()
}

fn value_of(text: &str, value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Value::Other("a number out of range"), Value::Integer),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Node {
                    value: value_of(text, item.get_ref()),
                    origin: Origin::Line(line_of(text, item.span().start)),
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(table_of(text, table)),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}
