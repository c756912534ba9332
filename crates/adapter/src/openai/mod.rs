//! What the adapters for OpenAI's two streaming APIs and for its Agents SDK share: framing of lines, arguments that arrive in pieces, errors.
//!
//! Refuses nothing by itself; what an item means is said by [`responses`], [`chat`] and [`agents`].

pub mod agents;
pub mod catalogue;
pub mod chat;
mod failure;
mod fragments;
pub mod responses;
pub(crate) mod wire;

use causeway_contract::event::ProviderMetadata;
use causeway_contract::id::Reference;
use causeway_contract::json::JsonNumber;
use causeway_contract::namespace::Namespace;

use crate::failure as sentences;
use crate::json::Json;
use crate::metadata::Admitted;
use crate::scribe::Scribe;
use crate::text;
use crate::usage::Counts;

/// What is known of the answer as a whole.
#[derive(Debug, Default)]
struct Answered {
    id: Option<String>,
    model: Option<String>,
    metadata: Admitted,
    counts: Counts,
}

impl Answered {
    /// Notes the id, the model and the token counts that an object names.
    fn note(&mut self, object: &Json<'_>) {
        let lossy = |key| object.str(key).map(|text| text.lossy().into_owned());
        self.id = lossy("id").or_else(|| self.id.take());
        self.model = lossy("model").or_else(|| self.model.take());
    }

    /// The state a later request may start from.
    fn head(&self, scribe: &Scribe) -> Option<Reference<'static>> {
        Reference::bounded(self.id.clone()?, scribe.options.limits.id_bytes).ok()
    }

    /// `provider.metadata` and the last totals.
    fn account(&mut self, scribe: &mut Scribe) {
        self.facts(scribe);
        scribe.last_usage(None);
    }

    /// `provider.metadata` and the totals so far, of one answer of many.
    fn settle(&mut self, scribe: &mut Scribe) {
        let told = !self.counts.is_unknown();
        self.facts(scribe);
        if told {
            scribe.usage(Counts::default());
        }
    }

    fn facts(&mut self, scribe: &mut Scribe) {
        let metadata = std::mem::take(&mut self.metadata);
        if let Some(model) = &self.model {
            let max = scribe.options.limits.id_bytes;
            let data = ProviderMetadata {
                provider: text::name("openai", "openai", max),
                model: text::name(model, "unknown", max),
                metadata: metadata.into_object(&scribe.options.limits),
            };
            scribe.draft(Namespace::root(), data);
        }
        scribe.totals.add(std::mem::take(&mut self.counts));
    }

    /// `run.error` behind an error in any of its forms: an event, an API body, an exception of the client.
    fn fail(&mut self, line: &Json<'_>, scribe: &mut Scribe) {
        let failure =
            failure::of(line).unwrap_or_else(|| sentences::of(line.text("error_type").unwrap_or_default()));
        let retry_after = retry_after(line);
        self.account(scribe);
        scribe.fail(failure, retry_after);
    }
}

/// The seconds after which a request may be sent again, from the headers or from the sentence of a rate limit.
fn retry_after(line: &Json<'_>) -> Option<JsonNumber<'static>> {
    crate::anthropic_messages::retry_after(line).or_else(|| failure::delay(&failure::words(line)?))
}
