//! An adapter behind the yield validator: what breaks a rule is refused where it is yielded.
//!
//! The coordinator validates again at commit; here a fault is told apart from one that comes later, and nothing of an
//! item whose events are refused gets out after the offending one.

use std::collections::VecDeque;
use std::sync::Arc;

use causeway_contract::limits::Limits;
use causeway_lifecycle::{Boundary, Thread, ToolSchemas, Validator};

use crate::adapter::{Adapter, Close, ItemError, Output, Told};
use crate::gated::Gated;

/// An adapter whose events obey every rule of the yield boundary.
#[derive(Debug)]
pub struct Checked<A> {
    adapter: A,
    validator: Validator,
    limits: Limits,
    out: VecDeque<Output>,
    refused: bool,
    gated: Gated,
}

impl<A: Adapter> Checked<A> {
    /// Puts the validator behind `adapter`, before anything was polled from it.
    pub fn new(adapter: A, limits: Limits) -> Self {
        // Whether the thread is durable makes no difference here: an adapter never claims a state (R13).
        let validator = Validator::new(Boundary::Yield, Thread::Durable, limits.clone()).offline();
        let mut checked = Self {
            adapter,
            validator,
            limits,
            out: VecDeque::new(),
            refused: false,
            gated: Gated::default(),
        };
        checked.pass_on();
        checked
    }

    /// The same that knows the schemas of tools.
    pub fn schemas(mut self, schemas: Option<Arc<dyn ToolSchemas>>) -> Self {
        if let Some(schemas) = schemas {
            self.validator = self.validator.schemas(schemas);
        }
        self
    }

    /// Takes what the adapter gives; an event that breaks a rule stays out, and so does everything after it.
    fn pump(&mut self) -> Result<(), ItemError> {
        while let Some(output) = self.adapter.poll() {
            if self.refused {
                continue;
            }
            let Some(output) = self.gated.pass(output) else { continue };
            if let Output::Draft(draft) = &output
                && let Err(error) = self.check(draft)
            {
                self.refused = true;
                return Err(error);
            }
            self.out.push_back(output);
        }
        Ok(())
    }

    fn check(&mut self, draft: &causeway_contract::EventDraft<'static>) -> Result<(), ItemError> {
        draft.check(&self.limits).map_err(|error| ItemError::Refused {
            rule: error.check().as_str().to_owned(),
            message: error.to_string(),
            event_type: Some(draft.data.event_type()),
        })?;
        self.validator.accept_draft(draft, draft.data.encoded_len()).map_err(|violation| ItemError::Refused {
            rule: violation.rule().to_string(),
            message: violation.to_string(),
            event_type: Some(draft.data.event_type()),
        })
    }

    /// As [`pump`](Self::pump) where nobody can be told: the offending event is passed on, for the coordinator to
    /// refuse.
    fn pass_on(&mut self) {
        while let Some(output) = self.adapter.poll() {
            if self.refused {
                continue;
            }
            let Some(output) = self.gated.pass(output) else { continue };
            self.refused = matches!(&output, Output::Draft(draft) if self.check(draft).is_err());
            self.out.push_back(output);
        }
    }
}

impl<A: Adapter> Adapter for Checked<A> {
    fn handle(&mut self, item: &[u8]) -> Result<(), ItemError> {
        let handled = self.adapter.handle(item);
        self.pump()?;
        handled
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn tell(&mut self, told: Told) -> Result<(), ItemError> {
        self.pump()?; // what was said before comes before
        if self.refused {
            return Ok(());
        }
        self.adapter.tell(told.clone())?;
        let Some(draft) = self.gated.tell(told) else { return Ok(()) };
        self.check(&draft)?;
        self.out.push_back(Output::Draft(draft));
        Ok(())
    }

    fn close(&mut self, how: Close) {
        self.adapter.close(how);
        self.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use causeway_contract::event::{EventDraft, TextDelta, TextStarted};
    use causeway_contract::id::MessageId;

    use super::*;

    /// Yields one given draft for every item.
    struct Scripted(VecDeque<EventDraft<'static>>, Option<EventDraft<'static>>);

    impl Adapter for Scripted {
        fn handle(&mut self, _item: &[u8]) -> Result<(), ItemError> {
            self.1 = self.0.pop_front();
            Ok(())
        }

        fn poll(&mut self) -> Option<Output> {
            self.1.take().map(Output::Draft)
        }

        fn close(&mut self, _how: Close) {
            self.1 = self.0.pop_front();
        }
    }

    fn drafts() -> [EventDraft<'static>; 3] {
        use causeway_contract::event::RunStarted;
        use causeway_contract::id::{HarnessId, Name};
        let message_id = MessageId::new("m").unwrap();
        [
            EventDraft::root(RunStarted {
                harness_id: HarnessId::new("h").unwrap(),
                adapter_version: Name::new("1").unwrap(),
                message_id: None,
                provider_run_id: None,
            }),
            EventDraft::root(TextDelta { message_id: message_id.clone(), delta: "x".into() }),
            EventDraft::root(TextStarted { message_id }),
        ]
    }

    #[test]
    fn an_event_that_breaks_a_rule_is_refused_and_ends_the_stream() {
        let [started, delta, text] = drafts();
        let script = VecDeque::from([delta, text]);
        let mut checked = Checked::new(Scripted(script, Some(started.clone())), Limits::DEFAULT);
        assert_eq!(checked.poll(), Some(Output::Draft(started)));
        let error = checked.handle(b"").unwrap_err();
        assert!(matches!(&error, ItemError::Refused { rule, .. } if rule == "R05"), "{error}");
        assert_eq!(checked.poll(), None);
        assert_eq!(checked.handle(b""), Ok(()));
        assert_eq!(checked.poll(), None, "nothing comes after a refusal");
    }

    #[test]
    fn at_the_close_the_coordinator_gets_the_event_to_refuse() {
        let [started, delta, _] = drafts();
        let mut checked =
            Checked::new(Scripted(VecDeque::from([delta.clone()]), Some(started)), Limits::DEFAULT);
        assert!(checked.poll().is_some());
        checked.close(Close::End);
        assert_eq!(checked.poll(), Some(Output::Draft(delta)));
    }
}
