//! Which conversations are being deleted: a new run of the same name begins its turn when that is over.
//!
//! Refuses to hold up anything else: a run is opened without waiting, and only its harness is begun later.

use std::sync::Arc;

use causeway_contract::id::ConversationId;
use causeway_store::model::Owner;
use tokio::sync::watch;

type Place = (Owner, ConversationId<'static>);

/// Conversations whose workers are still told, and whose files still go.
#[derive(Debug, Default)]
pub(crate) struct Erasing {
    places: Arc<watch::Sender<Vec<Place>>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    places: Arc<watch::Sender<Vec<Place>>>,
    place: Place,
}

impl Erasing {
    /// Holds up the turns of this conversation. To be called before its runs are deleted.
    pub(crate) fn enter(&self, owner: &Owner, conversation_id: &ConversationId<'_>) -> Guard {
        let place = (owner.clone(), conversation_id.clone().into_owned());
        self.places.send_modify(|places| places.push(place.clone()));
        Guard { places: Arc::clone(&self.places), place }
    }

    /// Waits until nothing of this conversation is being deleted. To be called once its run is open.
    pub(crate) async fn over(&self, owner: &Owner, conversation_id: &ConversationId<'_>) {
        let is_here = |(of, id): &Place| of == owner && id.as_str() == conversation_id.as_str();
        // It fails only without a sender, and we hold it.
        let _ = self.places.subscribe().wait_for(|places| !places.iter().any(is_here)).await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.places.send_modify(|places| {
            if let Some(at) = places.iter().position(|place| *place == self.place) {
                places.swap_remove(at);
            }
        });
    }
}
