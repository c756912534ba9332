//! Random walks over every verb: PostgreSQL answers as the reference does. `CAUSEWAY_PG_STEPS` makes them longer,
//! `CAUSEWAY_SEED` makes others.

use causeway_store::conformance::machine::{Plan, walk};
use causeway_store::conformance::server::Server;

use crate::Postgres;

/// Two walks at once, each on schemas of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_reference_does() {
    if Server::shared().is_none() {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = usize::try_from(number("CAUSEWAY_PG_STEPS").unwrap_or(2_500)).unwrap();
    let seed = number("CAUSEWAY_SEED").unwrap_or(20_261_201);
    eprintln!("postgres: {steps} steps, CAUSEWAY_SEED={seed}");
    let half = |seed, steps| {
        let plan = Plan { steps, life: 250, seed };
        tokio::spawn(walk(|| Postgres::empty().expect("a server"), plan))
    };
    let walks = [half(seed, steps / 2), half(seed + 1, steps.div_ceil(2))];
    let mut taken = 0;
    for walk in walks {
        taken += walk.await.unwrap();
    }
    assert_eq!(taken, steps);
}
