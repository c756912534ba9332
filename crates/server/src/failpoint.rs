//! The seams of the gateway, for the crash rig; see `causeway_store::failpoint`.

pub(crate) use causeway_store::failpoint::hit;

causeway_store::points! {
    STORE = "server.store", Start, "the store is open, the address not taken";
    READY = "server.ready", Start, "everything is recovered, nothing is served yet";
    STARTED = "server.started", Serve, "a run was opened, its start not answered";
    RESUMED = "server.resumed", Serve, "an answer was taken, and not acknowledged";
    FRAME = "server.frame", Serve, "frames of an event are about to be sent";
    CANCELLED = "server.cancelled", Serve, "a cancel is done, and not acknowledged";
    CLEARED = "server.cleared", Serve, "a conversation is cleared, which is not acknowledged";
    DELETED = "server.deleted", Serve, "a conversation is deleted, which is not acknowledged";
    STOPPED = "server.stopped", Stop, "every connection is closed, the store is open";
}
