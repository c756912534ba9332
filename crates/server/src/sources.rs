//! The sources of this crate, for tests that hold documents against them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

/// The text of every file up to its tests, without white space.
pub(crate) fn all() -> Vec<String> {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            texts.push(text.split("#[cfg(test)]").next().unwrap().split_whitespace().collect());
        }
    }
    texts
}
