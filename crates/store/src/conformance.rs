//! The suite that every backend must pass, case by case.
//!
//! Refuses to know how a backend works: it calls the trait and compares whole answers. A backend's tests name a way to
//! make an empty one and take all cases with [`conformance_suite!`](crate::conformance_suite).
// This is test code in a library: a case that fails panics.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

pub mod concurrency;
pub mod conversations;
pub mod ending;
pub mod fixture;
pub mod housekeeping;
pub mod interrupts;
pub mod machine;
pub mod op;
pub mod opening;
pub mod quotas;
pub mod reading;
pub mod reference;
#[cfg(feature = "postgres")]
pub mod server;
pub mod writing;

use std::sync::Arc;

use crate::store::Store;

/// A store and the way to restart it.
pub trait Backend: Send {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Closes the store and opens it again, as a restarted gateway does.
    fn restart(&mut self);
}

/// Makes one test of every case, each on an empty backend that the expression gives.
#[macro_export]
macro_rules! conformance_suite {
    ($backend:expr) => {
        $crate::conformance_suite!(@cases $backend;
            opening {
                a_new_run_starts_from_the_empty_state,
                the_next_run_starts_from_the_last_head,
                another_agent_starts_from_its_own_head,
                a_run_begins_with_run_started,
                the_same_request_finds_its_run,
                a_key_for_another_request_is_refused,
                keys_of_two_owners_do_not_meet,
                a_key_is_kept_for_a_day,
                a_run_id_is_taken_once,
                a_conversation_has_one_active_run,
                conversations_of_two_owners_do_not_meet,
            }
            quotas {
                an_owner_has_so_many_runs_open_and_no_more,
                an_agent_has_so_many_runs_open_whoever_calls,
                an_answer_counts_as_a_run_and_waiting_does_not,
                starts_are_counted_over_a_minute_whatever_became_of_the_runs,
                what_is_stored_is_counted_with_the_end_of_a_run,
            }
            writing {
                what_is_appended_is_read_back_in_order,
                a_gap_or_a_repetition_is_refused,
                numbers_in_one_call_have_no_gap,
                terminals_and_starts_are_not_appended,
                nothing_is_written_to_an_unknown_run,
                a_fenced_writer_is_refused,
            }
            ending {
                r13_run_finished_moves_head_and_status_together,
                r13_run_finished_of_a_durable_thread_needs_its_head,
                r13_run_finished_names_the_head_it_moves_to,
                r13_a_commit_on_another_base_is_refused_whole,
                r15_run_error_never_moves_the_head,
                r15_an_uncertain_run_says_so,
                run_cancelled_moves_the_head_if_it_brings_one,
                an_ephemeral_thread_has_no_head,
                r04_nothing_follows_a_terminal,
                r03_a_commit_ends_with_its_only_terminal,
                a_run_taken_over_is_closed_with_an_error,
                the_outcome_of_a_lost_answer_can_be_read,
                why_a_run_is_uncertain_is_kept_and_the_first_note_stands,
            }
            interrupts {
                r14_an_interrupt_is_committed_with_its_snapshot_and_receipt,
                r14_a_refused_interrupt_leaves_nothing,
                a_pending_interrupt_holds_up_new_runs,
                an_answer_starts_one_run,
                the_same_answer_finds_its_run,
                an_answer_must_fit_the_interrupt,
                an_answer_stays_with_owner_conversation_and_agent,
                a_voided_interrupt_takes_no_answer,
                an_expired_interrupt_takes_no_answer_and_holds_up_nothing,
                a_consumed_interrupt_stays_consumed_when_its_run_fails,
                pending_interrupts_are_listed_for_their_owner,
                interrupts_that_expire_are_listed_the_soonest_first,
            }
            conversations {
                clear_begins_an_epoch_from_the_empty_state,
                clear_takes_a_pending_interrupt_back,
                a_busy_conversation_is_neither_cleared_nor_deleted,
                a_deleted_conversation_leaves_nothing,
                threads_that_nothing_starts_from_can_be_forgotten,
            }
            reading {
                pages_follow_each_other_without_a_gap,
                a_page_of_large_records_is_short_but_never_empty,
                a_page_is_done_after_the_terminal_only,
                runs_are_listed_newest_first,
                runs_are_filtered_by_all_that_is_given,
                nothing_of_one_owner_is_shown_to_another,
                a_run_shows_its_last_usage,
                results_are_kept_whole_and_once,
            }
            housekeeping {
                what_was_acknowledged_survives_a_restart,
                runs_of_a_former_instance_are_orphans,
                a_packed_run_replays_the_same_records,
                an_expired_run_keeps_what_it_was_and_loses_what_it_said,
                what_runs_or_waits_for_an_answer_does_not_expire,
                of_many_who_expire_runs_each_takes_its_own,
                the_store_says_how_it_feels,
            }
            concurrency {
                of_many_commits_of_a_run_one_wins,
                of_many_starts_in_a_conversation_one_wins,
                of_many_answers_to_an_interrupt_one_starts_a_run,
                many_requests_with_one_key_start_one_run,
                nothing_of_a_fenced_writer_follows_the_terminal,
                many_runs_are_written_at_once,
            }
        );
    };
    (@cases $backend:expr; $($module:ident { $($case:ident,)+ })+) => {
        $(
            mod $module {
                #[allow(unused_imports)]
                use super::*;
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let mut backend = $backend;
                        let case = $crate::conformance::$module::$case(&mut backend);
                        let bound = std::time::Duration::from_secs(60);
                        assert!(tokio::time::timeout(bound, case).await.is_ok(), "the case takes too long");
                    }
                )+
            }
        )+
    };
}
