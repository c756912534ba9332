//! `[retention]`.

use super::Section;
use crate::config::Retention;

pub(super) fn retention(section: &mut Section<'_, '_>) -> Retention {
    let default = Retention::default();
    Retention {
        pack_after: section.duration("pack_after", false).unwrap_or(default.pack_after),
        delete_after: section.duration("delete_after", true),
        interval: section.duration("interval", true).unwrap_or(default.interval),
    }
}
