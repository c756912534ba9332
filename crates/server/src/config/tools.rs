//! `agents.NAME.tools.TOOL.schema`: reading the file and compiling what is in it.
//!
//! Refuses what is no usable JSON Schema, with the file and the place in it.

use std::io::Read as _;
use std::path::Path;

use causeway_engine::schema::{MAX_BYTES, ToolSchema};

/// Reads and compiles the schema in a file.
///
/// # Errors
/// A sentence that names the file and, where the schema is at fault, the place in it.
pub fn read(file: &Path) -> Result<ToolSchema, String> {
    let name = file.display();
    let cannot = |error: std::io::Error| format!("cannot read {name}: {error}");
    let mut text = Vec::new();
    // One byte more than is allowed tells that it is too large, whatever the file is.
    let most = MAX_BYTES as u64 + 1;
    std::fs::File::open(file).map_err(cannot)?.take(most).read_to_end(&mut text).map_err(cannot)?;
    let text = String::from_utf8(text).map_err(|_| format!("{name} is not UTF-8"))?;
    ToolSchema::compile(&text).map_err(|fault| format!("{name} {fault}"))
}
