//! What a reference to a secret stands for: the text of a file, or a variable of the gateway's environment.
//!
//! Refuses to repeat what it read in an error.

use std::path::Path;

use super::EnvValue;

/// The text that `value` stands for.
///
/// # Errors
/// A sentence for the operator.
pub fn resolve(value: &EnvValue) -> Result<String, String> {
    let text = match value {
        EnvValue::Plain(text) => text.clone(),
        EnvValue::Env(variable) => std::env::var(variable)
            .map_err(|_| format!("the variable {variable} is not set, or not in UTF-8"))?,
        EnvValue::File(file) => read(file)?,
    };
    if text.contains('\0') {
        return Err("holds U+0000".to_owned());
    }
    Ok(text)
}

/// The text of a file without the line break at its end.
///
/// # Errors
/// A sentence for the operator.
pub fn read(file: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
