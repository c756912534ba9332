//! `[quotas]` and `[agents.NAME.quotas]`.

use causeway_engine::quota::{Bounds, Quotas};

use super::Section;

pub(super) fn quotas(section: &mut Section<'_, '_>) -> Quotas {
    let mut quotas = Quotas { subject: bounds(section), ..Quotas::default() };
    section.each("subjects", |name, section| {
        quotas.subjects.insert(name.to_owned(), bounds(section));
    });
    quotas
}

pub(super) fn bounds(section: &mut Section<'_, '_>) -> Bounds {
    Bounds {
        open_runs: section.count("open_runs", 1..=1 << 20).map(|count| count as u64),
        // The store looks at the newest so many starts.
        starts_per_minute: section.count("starts_per_minute", 1..=100_000).map(|count| count as u64),
        open_streams: section.count("open_streams", 1..=1 << 20).map(|count| count as u64),
        stored_bytes: section.size("stored_bytes", 1 << 10..=1 << 50),
    }
}
