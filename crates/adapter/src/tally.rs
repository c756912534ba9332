//! What was taken out of native text: secrets and characters, counted on the thread that does it.
//!
//! Refuses to say what it was. Whoever drives an adapter takes the count after each call; an adapter never waits, so
//! that what it counts between two takes is its own.

use std::cell::Cell;

/// What was taken out since the last look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Places where `[redacted]` stands instead of a secret.
    pub redactions: u64,
    /// Characters of terminal escapes, and control characters, that an agent does not want.
    pub stripped: u64,
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { redactions: 0, stripped: 0 }) };
}

/// The count of this thread, which begins anew.
pub fn take() -> Tally {
    TALLY.take()
}

pub(crate) fn redacted(places: u64) {
    TALLY.with(|tally| {
        let so_far = tally.get();
        tally.set(Tally { redactions: so_far.redactions.saturating_add(places), ..so_far });
    });
}

pub(crate) fn stripped(characters: u64) {
    TALLY.with(|tally| {
        let so_far = tally.get();
        tally.set(Tally { stripped: so_far.stripped.saturating_add(characters), ..so_far });
    });
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::Name;

    use super::*;
    use crate::redact::redact;
    use crate::text;
    use crate::turn::Options;

    #[test]
    fn what_is_taken_out_is_counted_once_and_the_count_is_taken_whole() {
        take();
        assert_eq!(redact("password=a token=b"), "password=[redacted] token=[redacted]");
        let strip = Options::new(Name::new("agent").unwrap()).strip_escapes(true);
        assert_eq!(text::content("a\u{1b}[31mb\u{7}", &strip), "ab");
        assert_eq!(take(), Tally { redactions: 2, stripped: 6 });
        assert_eq!(take(), Tally::default());
        assert_eq!(redact("nothing here"), "nothing here");
        assert_eq!(
            text::content("\u{1b}[31ma\nb", &Options::new(Name::new("agent").unwrap())),
            "\u{1b}[31ma\nb"
        );
        assert_eq!(take(), Tally::default());
    }
}
