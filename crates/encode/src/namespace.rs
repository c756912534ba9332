//! The namespace an AG-UI stream announced last (goldens §5, [N]).

use causeway_contract::namespace::Namespace;

/// A path that is compared and replaced without an allocation of its own once it has grown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    /// The elements, one after the other.
    text: String,
    /// Where each ends in `text`.
    ends: Vec<usize>,
}

impl Announced {
    /// Remembers `namespace`; true if it differs from the one before.
    #[inline]
    pub(crate) fn change_to(&mut self, namespace: &Namespace<'_>) -> bool {
        if self.is(namespace) {
            return false;
        }
        self.text.clear();
        self.ends.clear();
        for element in namespace.path() {
            self.text.push_str(element.as_str());
            self.ends.push(self.text.len());
        }
        true
    }

    fn is(&self, namespace: &Namespace<'_>) -> bool {
        let mut start = 0;
        self.ends.len() == namespace.depth()
            && self.ends.iter().zip(namespace.path()).all(|(&end, element)| {
                let same = self.text.get(start..end) == Some(element.as_str());
                start = end;
                same
            })
    }
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::InvocationId;

    use super::*;

    #[test]
    fn paths_with_the_same_letters_are_still_different_paths() {
        let path = |elements: &[&'static str]| {
            elements.iter().map(|&e| InvocationId::new(e).unwrap()).collect::<Namespace<'_>>()
        };
        let mut announced = Announced::default();
        let steps: [(&[&'static str], bool); 8] = [
            (&[], false),
            (&["ab"], true),
            (&["ab"], false),
            (&["a", "b"], true),
            (&["a", "b", "c"], true),
            (&["a", "bc"], true),
            (&[], true),
            (&[], false),
        ];
        for (elements, differs) in steps {
            assert_eq!(announced.change_to(&path(elements)), differs, "{elements:?}");
        }
    }
}
