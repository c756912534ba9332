//! Query parameters: taken one by one, each fault told (400).

use std::collections::HashMap;

use axum::extract::Query as AxumQuery;
use axum::http::Uri;
use causeway_contract::event::Sequence;

use crate::problem::Problem;

/// A whole number that may be left out: what it then is, and its range.
pub type Range = (u64, std::ops::RangeInclusive<u64>);

/// Runs on a page.
pub const PAGE: Range = (50, 1..=500);
/// Events in an answer.
pub const EVENTS: Range = (500, 1..=5000);
/// Seconds to wait for an event.
pub const WAIT: Range = (0, 0..=30);
/// Majors of the AI SDK.
pub const SDK: Range = (5, 5..=7);

/// So many characters of the name of an unknown parameter are told back.
const SHOWN: usize = 64;
/// And so many names.
const SHOWN_NAMES: usize = 8;

/// The parameters of one request.
#[derive(Debug)]
pub struct Query(HashMap<String, String>);

impl Query {
    /// Reads the query of `uri`. A repeated parameter is refused: which of its values counts, nobody could tell. One that is not in `known` would be
    /// without effect, so it is refused: a misspelt `protocol` must not turn into the default.
    ///
    /// # Errors
    /// 400 when it is not readable or holds an unknown or a repeated parameter.
    pub fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let AxumQuery(all) = AxumQuery::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Problem::parameter("the query is not readable"))?;
        let count = all.len();
        let parameters: HashMap<String, String> = all.into_iter().collect();
        let mut unknown: Vec<String> = parameters
            .keys()
            .filter(|name| !known.contains(&name.as_str()))
            .map(|name| format!("`{}`", name.chars().take(SHOWN).collect::<String>().escape_debug()))
            .collect();
        if unknown.is_empty() {
            return match parameters.len() == count {
                true => Ok(Self(parameters)),
                false => Err(Problem::parameter("the query gives a parameter twice; give each once")),
            };
        }
        unknown.sort_unstable();
        unknown.truncate(SHOWN_NAMES);
        Err(Problem::parameter(format!(
            "the query holds unknown parameters: {}; known are {}",
            unknown.join(", "),
            known.join(", ")
        )))
    }

    /// A parameter as it was written.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A whole number in a range, or `default`.
    ///
    /// # Errors
    /// 400 when it is something else.
    pub fn number(&self, name: &str, (default, range): Range) -> Result<u64, Problem> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            Problem::parameter(format!(
                "{name} must be a whole number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    /// A cursor: the number of an event, exclusive.
    ///
    /// # Errors
    /// 400 when it is none.
    pub fn cursor(&self, name: &str) -> Result<Option<Sequence>, Problem> {
        self.text(name).map(|text| cursor(name, text)).transpose()
    }
}

/// Reads a cursor.
///
/// # Errors
/// 400 when `text` is not the number of an event.
pub fn cursor(name: &str, text: &str) -> Result<Sequence, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).and_then(Sequence::new).ok_or_else(|| {
        Problem::parameter(format!("{name} must be the number of an event: 0 or more, digits only"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_digits_up_to_two_to_the_fifty_third() {
        assert_eq!(cursor("after", "0"), Ok(Sequence::ZERO));
        assert_eq!(cursor("after", "9007199254740991"), Ok(Sequence::MAX));
        for text in ["", "-1", "+1", "1.0", "x", " 1", "9007199254740992", "99999999999999999999999"] {
            assert!(cursor("after", text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_refused_by_its_name() {
        let refused = |text: &'static str| Query::of(&Uri::from_static(text), &["protocol", "after"]);
        assert!(refused("/x").is_ok() && refused("/x?after=1&protocol=agui").is_ok());
        let message = "the query holds unknown parameters: `\\u{1b}z`, `protcol`; known are protocol, after";
        let problem = refused("/x?protcol=agui&after=1&%1Bz=1").unwrap_err();
        assert_eq!(problem, Problem::parameter(message));
        assert_eq!(problem.status, 400);
        assert_eq!(refused("/x?after=1&after=1").unwrap_err().status, 400, "given twice");
    }

    #[test]
    fn a_number_stays_in_its_range() {
        let uri = Uri::from_static("/x?limit=7&wait=31&bad=a&e=%C3%A9");
        let query = Query::of(&uri, &["limit", "wait", "bad", "e", "gone"]).unwrap();
        assert_eq!(query.number("limit", (1, 1..=10)), Ok(7));
        assert_eq!(query.number("gone", (1, 1..=10)), Ok(1));
        assert!(query.number("wait", (0, 0..=30)).is_err());
        assert!(query.number("bad", (0, 0..=30)).is_err());
        assert_eq!(query.text("e"), Some("é"));
    }
}
