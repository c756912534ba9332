//! What a client may ask of a format beyond its name.
//!
//! Refuses nothing: a format reads what concerns it and passes over the rest.

/// What one client said about itself; the default is a client that said nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The client's own name for the run, echoed instead of ours (`agui-spec`).
    pub run_id: Option<String>,
    /// The AG-UI version that the client declared, as major and minor (`agui-spec`).
    pub agui_version: Option<(u32, u32)>,
    /// The major of the AI SDK that reads the stream (`ui-message`).
    pub sdk: Option<u32>,
    /// Whether the run goes on where an interrupted one stopped. A seed that names calls says so too.
    pub resumed: bool,
}

impl Options {
    /// A client that said nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the client's name for the run.
    pub fn run_id(self, run_id: impl Into<String>) -> Self {
        Self { run_id: Some(run_id.into()), ..self }
    }

    /// The same with a declared AG-UI version, `MAJOR.MINOR`; anything else counts as not declared.
    pub fn agui_version(self, text: &str) -> Self {
        let part = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        let version = text.split_once('.').and_then(|(major, minor)| Some((part(major)?, part(minor)?)));
        Self { agui_version: version, ..self }
    }

    /// The same with the major of the AI SDK.
    pub fn sdk(self, major: u32) -> Self {
        Self { sdk: Some(major), ..self }
    }

    /// The same for a run that goes on where an interrupted one stopped, or not.
    pub fn resumed(self, resumed: bool) -> Self {
        Self { resumed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_version_is_two_numbers_or_none() {
        let read = |text: &str| Options::new().agui_version(text).agui_version;
        assert_eq!(read("1.0"), Some((1, 0)));
        assert_eq!(read("12.34"), Some((12, 34)));
        for text in ["", "1", "1.", ".1", "1.0.0", "v1.0", "+1.0", "1.x", " 1.0"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
