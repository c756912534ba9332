//! A snapshot of an MCP server's `tools/list`: names, schemas and what the server says of itself.
//!
//! Refuses a list that cannot be read whole. Live servers are not asked: what an operator has looked at is what holds.

use causeway_adapter::json::Json;

use crate::schema::ToolSchema;

/// The largest snapshot, in bytes.
pub const MAX_BYTES: usize = 8 << 20;
/// The most tools in one.
const MAX_TOOLS: usize = 1024;

/// A tool of a snapshot.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The schema of its arguments.
    pub schema: ToolSchema,
    /// Whether it may change something: what is not said to be read-only may.
    pub sensitive: bool,
}

/// Reads a snapshot: the result of `tools/list`, the whole answer around it, or the bare list.
///
/// # Errors
/// A sentence for the operator, with the tool.
pub fn read(text: &str) -> Result<Vec<Listed>, String> {
    let json = Json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let result = json.get("result").unwrap_or(&json);
    let list = match (result, result.get("tools")) {
        (Json::Array(list), _) | (_, Some(Json::Array(list))) => list,
        _other => return Err("there is no list of tools in it".to_owned()),
    };
    if result.get("nextCursor").is_some() {
        return Err("it is one page of several (`nextCursor`); put all pages into one list".to_owned());
    }
    if list.len() > MAX_TOOLS {
        return Err(format!("it has {} tools; the limit is {MAX_TOOLS}", list.len()));
    }
    let mut tools: Vec<Listed> = Vec::new();
    for (n, tool) in list.iter().enumerate() {
        let name = tool.text("name").ok_or_else(|| format!("tool {n} has no name"))?.to_owned();
        if tools.iter().any(|other| other.name == name) {
            return Err(format!("the tool {name} stands in it twice"));
        }
        let schema = tool.get("inputSchema").ok_or_else(|| format!("the tool {name} has no inputSchema"))?;
        let schema = ToolSchema::compile(&schema.to_text())
            .map_err(|fault| format!("the inputSchema of the tool {name} {fault}"))?;
        let annotations = tool.get("annotations").unwrap_or(&Json::Null);
        let sensitive = annotations.get("readOnlyHint") != Some(&Json::Bool(true));
        tools.push(Listed { name, schema, sensitive });
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[
        {"name":"read","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
        {"name":"write","inputSchema":{"type":"object","required":["p"]}}]}}"#;

    fn told(text: &str) -> String {
        match read(text) {
            Ok(tools) => tools
                .iter()
                .map(|tool| format!("{}{}", tool.name, if tool.sensitive { "!" } else { "" }))
                .collect::<Vec<_>>()
                .join(" "),
            Err(what) => what,
        }
    }

    #[test]
    fn a_tool_that_does_not_say_that_it_only_reads_is_sensitive() {
        assert_eq!(told(LIST), "read write!");
        assert_eq!(told(r#"[{"name":"a","inputSchema":{}}]"#), "a!");
        assert_eq!(told(r#"{"tools":[]}"#), "");
    }

    #[test]
    fn a_list_that_cannot_be_read_whole_is_refused() {
        assert_eq!(told("{}"), "there is no list of tools in it");
        assert_eq!(
            told(r#"{"tools":[],"nextCursor":"x"}"#),
            "it is one page of several (`nextCursor`); put all pages into one list"
        );
        assert_eq!(told(r#"[{"name":"a"}]"#), "the tool a has no inputSchema");
        assert_eq!(told(r#"[{"inputSchema":{}}]"#), "tool 0 has no name");
        assert_eq!(
            told(r#"[{"name":"a","inputSchema":{}},{"name":"a","inputSchema":{}}]"#),
            "the tool a stands in it twice"
        );
        let remote = r#"[{"name":"a","inputSchema":{"$ref":"https://example.com/s"}}]"#;
        assert!(told(remote).starts_with("the inputSchema of the tool a at "), "{}", told(remote));
        assert!(told("nothing").starts_with("the item is not JSON"));
    }
}
