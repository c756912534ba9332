//! Damaged recordings: lines dropped, repeated, swapped, cut, and their words exchanged. Nothing panics, and what the
//! adapter yields obeys every rule with one terminal or none.

#[path = "../../../../fuzz/bodies/adapter.rs"]
mod body;

use crate::damage::{damage, rounds};
use crate::recorded::each;

/// Words that mean something to the adapter; any may stand in the place of any other.
const WORDS: &[&str] = &[
    "\"updates\"",
    "\"messages\"",
    "\"tasks\"",
    "\"tools\"",
    "\"task\"",
    "\"model\"",
    "\"AIMessage\"",
    "\"AIMessageChunk\"",
    "\"ToolMessage\"",
    "\"HumanInTheLoopMiddleware.after_model\"",
    "\"call_k1\"",
    "\"call_h1\"",
    "\"call_w1\"",
    "\"error\"",
    "\"success\"",
    "\"end\"",
    "\"chunk\"",
    "\"begin\"",
    "\"cancelled\"",
    "null",
    "[]",
    "{}",
    "\"\\ud83d\"",
    "\"\\ude00x\"",
    "\"\\u0000\"",
    "\"ERROR: x\"",
    "\"request_user_input\"",
    "\"__interrupt__\"",
    "\"interrupts\"",
    "1e999",
    "\"\"",
    "\"input\"",
    "\"result\"",
    "\"tool_call_id\"",
    "\"id\"",
    "\"name\"",
    "\"args\"",
    "\"\\u202e\"",
];

#[test]
fn no_damage_to_a_recording_makes_the_adapter_break_a_rule() {
    each(|_, _, file| {
        let whole: Vec<Vec<u8>> = file.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        rounds(40, |mut dice| {
            // A turn of the recording, so that its later lines are not all late.
            let begins: Vec<usize> =
                (0..whole.len()).filter(|at| whole[*at].starts_with(b"{\"kind\": \"begin\"")).collect();
            let from = begins[dice.roll(begins.len())];
            let mut lines = whole[from..].to_vec();
            damage(&mut lines, &mut dice, WORDS);
            let mut data = vec![u8::try_from(dice.roll(32)).unwrap()];
            data.extend(lines.join(&b'\n'));
            body::adapter(&data);
        });
    });
}
