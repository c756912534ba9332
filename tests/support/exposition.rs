//! A strict reader of the OpenMetrics text format: what it does not know it refuses.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

/// One line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// One family: what is between two `# HELP`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    pub kind: String,
    pub unit: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

/// A page, family by family, under the names of their `# TYPE`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page(pub BTreeMap<String, Family>);

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// It is not one, with the line.
    pub fn read(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("the page ends with # EOF");
        let mut page = Self::default();
        let mut name = String::new();
        let mut seen = BTreeSet::new();
        for line in body.lines() {
            if let Some(meta) = line.strip_prefix("# ") {
                let (word, rest) = meta.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                let (of, text) = rest.split_once(' ').unwrap_or((rest, ""));
                assert!(is_name(of), "{line}");
                if word == "HELP" {
                    assert!(!page.0.contains_key(of), "a family in two parts: {line}");
                    name = of.to_owned();
                    page.0.insert(name.clone(), Family { help: text.to_owned(), ..Family::default() });
                }
                assert_eq!(of, name, "{line}");
                let family = page.0.get_mut(&name).unwrap();
                match word {
                    "HELP" => {}
                    "TYPE" => family.kind = text.to_owned(),
                    "UNIT" => family.unit = text.to_owned(),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let sample = sample(line);
            let family = page.0.get_mut(&name).unwrap_or_else(|| panic!("no family: {line}"));
            let suffix = sample.name.strip_prefix(&name).unwrap_or_else(|| panic!("not of {name}: {line}"));
            let fits = match family.kind.as_str() {
                "counter" => suffix == "_total",
                "gauge" => suffix.is_empty(),
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                other => panic!("{other}: {line}"),
            };
            assert!(fits, "{line}");
            assert!(sample.value.is_finite() && (family.kind == "gauge" || sample.value >= 0.0), "{line}");
            assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
            family.samples.push(sample);
        }
        for (name, family) in &page.0 {
            let unit = &family.unit;
            assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name} is in {unit}");
            assert!(family.help.ends_with('.') && family.help.len() > 8, "{name}: {}", family.help);
            if family.kind == "histogram" {
                check_histogram(name, family);
            }
        }
        page
    }

    /// The sum of the samples `name` whose labels hold all of these.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|v| v == value))
        };
        self.0.values().flat_map(|family| &family.samples).filter(fits).map(|sample| sample.value).sum()
    }

    /// How many samples there are.
    pub fn series(&self) -> usize {
        self.0.values().map(|family| family.samples.len()).sum()
    }

    /// Every value of every label.
    pub fn label_values(&self) -> BTreeSet<&str> {
        let samples = self.0.values().flat_map(|family| &family.samples);
        samples.flat_map(|sample| sample.labels.values().map(String::as_str)).collect()
    }
}

fn check_histogram(name: &str, family: &Family) {
    let mut counts: BTreeMap<BTreeMap<String, String>, (f64, f64)> = BTreeMap::new();
    let mut ended = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        if let Some(bound) = labels.remove("le") {
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
            let (last, count) = counts.get(&labels).copied().unwrap_or((f64::NEG_INFINITY, 0.0));
            assert!(bound > last && sample.value >= count, "{name}: {sample:?}");
            counts.insert(labels, (bound, sample.value));
        } else if sample.name.ends_with("_count") {
            ended.insert(labels, sample.value);
        }
    }
    for (labels, (bound, count)) in counts {
        assert_eq!((bound, Some(&count)), (f64::INFINITY, ended.get(&labels)), "{name} {labels:?}");
    }
}

fn sample(line: &str) -> Sample {
    let (name, rest) = match line.split_once('{') {
        Some((name, rest)) => (name, rest),
        None => {
            let (name, value) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(name), "{line}");
            return Sample { name: name.to_owned(), labels: BTreeMap::new(), value: number(value, line) };
        }
    };
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut chars = rest.chars();
    loop {
        let key: String = chars.by_ref().take_while(|c| *c != '=').collect();
        assert!(is_name(&key) && chars.next() == Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match chars.next().unwrap_or_else(|| panic!("{line}")) {
                '"' => break,
                '\\' => match chars.next() {
                    Some('n') => value.push('\n'),
                    Some(c @ ('"' | '\\')) => value.push(c),
                    _ => panic!("{line}"),
                },
                c => value.push(c),
            }
        }
        assert!(labels.insert(key, value).is_none(), "a label twice: {line}");
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            _ => panic!("{line}"),
        }
    }
    let value = chars.as_str().strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    Sample { name: name.to_owned(), labels, value: number(value, line) }
}

fn number(text: &str, line: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {line}"))
}
