//! The mixed load: what one client does until the gateway is gone.
//!
//! Refuses order: clients come into each other's way, repeat what they got no answer to, and answer what others were
//! asked. What a client does next follows from its numbers alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::Client;
use crate::random::Random;
use crate::scene::Scene;
use crate::world::{Answer, Gone, Start, Waiting, World};

/// One thing that a client does.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Deed {
    /// Starts a run, follows it, goes away in its middle and comes back.
    Talk,
    /// Starts a run as established clients do.
    Converse,
    /// Starts a run whose whole tool result is kept apart.
    Big,
    /// Starts a run that asks something, and answers or leaves it.
    Ask,
    /// Answers what anybody was asked before.
    Answer,
    /// Starts a run and cancels it.
    Cancel,
    /// Starts a run that asks something, and takes the question back.
    Void,
    /// Clears a conversation, with or without something pending.
    Clear,
    /// Deletes a conversation.
    Delete,
    /// Lets a question grow too old.
    Expire,
    /// Asks again what was not answered, under the same key.
    Repeat,
    /// Reads a run again, from anywhere.
    Replay,
}

impl Deed {
    pub const ALL: &[Self] = &[
        Self::Talk,
        Self::Converse,
        Self::Big,
        Self::Ask,
        Self::Answer,
        Self::Cancel,
        Self::Void,
        Self::Clear,
        Self::Delete,
        Self::Expire,
        Self::Repeat,
        Self::Replay,
    ];

    /// How many times out of all it is done when nothing else is wanted.
    fn weight(self) -> u64 {
        match self {
            Self::Talk | Self::Ask => 6,
            Self::Answer => 5,
            Self::Converse | Self::Cancel | Self::Repeat => 3,
            Self::Void | Self::Clear | Self::Replay | Self::Big => 2,
            Self::Delete | Self::Expire => 1,
        }
    }
}

/// What streams are followed in.
pub const PROTOCOLS: &[&str] = &["canonical", "custom", "agui"];

/// The gateways that clients know of.
#[derive(Debug)]
pub struct Doors(RwLock<Vec<Client>>);

impl Doors {
    pub fn new(clients: Vec<Client>) -> Self {
        Self(RwLock::new(clients))
    }

    /// One gateway is somewhere else now.
    pub fn moved(&self, number: usize, to: Client) {
        if let Some(door) = self.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            *door = to;
        }
    }

    /// The gateway with this number.
    pub fn number(&self, number: usize) -> Option<Client> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(number).copied()
    }

    fn several(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len() > 1
    }

    /// # Panics
    /// There is none.
    #[allow(clippy::expect_used)]
    pub fn any(&self, random: &mut Random) -> Client {
        let clients = self.0.read().unwrap_or_else(PoisonError::into_inner);
        *random.pick(&clients).expect("a gateway")
    }
}

/// A client.
pub struct Load<'a> {
    pub world: &'a World,
    pub scene: &'a Scene,
    pub doors: &'a Doors,
    pub random: Random,
    /// What is done more often than else.
    pub focus: Option<Deed>,
    pub stop: &'a AtomicBool,
}

impl Load<'_> {
    /// Does one thing after another until the gateway is gone or it is told to stop.
    pub fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let deed = self.next();
            if self.perform(deed).is_err() {
                if !self.doors.several() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100)); // another may be there, or the same one again
            }
        }
    }

    /// A gateway to ask: any, each time.
    fn door(&mut self) -> Client {
        self.doors.any(&mut self.random)
    }

    /// Does each of these once.
    pub fn tour(mut self, deeds: &[Deed]) -> Result<(), Gone> {
        deeds.iter().try_for_each(|deed| self.perform(*deed))
    }

    fn next(&mut self) -> Deed {
        if let Some(focus) = self.focus
            && self.random.percent(40)
        {
            return focus;
        }
        let total: u64 = Deed::ALL.iter().map(|deed| deed.weight()).sum();
        let mut at = self.random.below(total);
        for deed in Deed::ALL {
            match at.checked_sub(deed.weight()) {
                Some(rest) => at = rest,
                None => return *deed,
            }
        }
        Deed::Talk
    }

    fn perform(&mut self, deed: Deed) -> Result<(), Gone> {
        match deed {
            Deed::Talk => self.talk(),
            Deed::Converse => self.converse(),
            Deed::Big => self.big(),
            Deed::Ask => self.ask(),
            Deed::Answer => self.answer_any(),
            Deed::Cancel => self.cancel(),
            Deed::Void => self.void(),
            Deed::Clear => self.clear(),
            Deed::Delete => self.delete(),
            Deed::Expire => self.expire(),
            Deed::Repeat => self.repeat(),
            Deed::Replay => self.replay(),
        }
    }

    /// A request in a conversation that goes on for the whole episode, or in a new one.
    fn request(&mut self, agent: &str, word: &str, conversation: Option<&str>) -> Start {
        let op = self.world.op();
        let conversation = match conversation {
            Some(conversation) => conversation.to_owned(),
            None => self.scene.conversation(&mut self.random, op),
        };
        let key = self.random.percent(60).then(|| format!("k{op}"));
        let word = self.scene.word(agent, word);
        Start { agent: agent.to_owned(), conversation, message: format!("{word} {op}"), key }
    }

    fn any_of(&mut self, of: &[(&'static str, &'static str)]) -> (&'static str, &'static str) {
        self.random.pick(of).copied().unwrap_or(("talk", "hello"))
    }

    fn begin(
        &mut self,
        of: &[(&'static str, &'static str)],
        conversation: Option<&str>,
    ) -> Result<Option<(Start, String)>, Gone> {
        let (agent, word) = self.any_of(of);
        let start = self.request(agent, word, conversation);
        Ok(self.world.start(&self.door(), &start)?.map(|run_id| (start, run_id)))
    }

    fn follow(&mut self, run_id: &str) -> Result<(), Gone> {
        let protocol = self.random.pick(PROTOCOLS).copied().unwrap_or("canonical");
        let mut after = None;
        if self.random.percent(25) {
            let most = usize::try_from(1 + self.random.below(6)).unwrap_or(1);
            after = self.world.follow(&self.door(), run_id, protocol, None, Some(most))?;
        }
        self.world.follow(&self.door(), run_id, protocol, after, None)?;
        Ok(())
    }

    fn talk(&mut self) -> Result<(), Gone> {
        let Some((start, run_id)) = self.begin(self.scene.talks(), None)? else { return Ok(()) };
        self.follow(&run_id)?;
        if self.random.percent(30) {
            let (agent, word) = (start.agent.clone(), self.any_of(self.scene.talks()).1);
            let more = self.request(&agent, word, Some(&start.conversation));
            if let Some(run_id) = self.world.start(&self.door(), &more)? {
                self.follow(&run_id)?;
            }
        }
        Ok(())
    }

    fn converse(&mut self) -> Result<(), Gone> {
        let (agent, word) = self.any_of(self.scene.talks());
        let start = self.request(agent, word, None);
        let protocol = if self.random.percent(50) { "custom" } else { "agui" };
        self.world.converse(&self.door(), &start, protocol)
    }

    fn big(&mut self) -> Result<(), Gone> {
        let Some((_, run_id)) = self.begin(self.scene.bigs(), None)? else { return Ok(()) };
        self.follow(&run_id)
    }

    /// A run that waits for an answer, if it came to that.
    fn asked(&mut self, of: &[(&'static str, &'static str)]) -> Result<Option<Waiting>, Gone> {
        let Some((start, run_id)) = self.begin(of, None)? else { return Ok(None) };
        self.follow(&run_id)?;
        let waiting = self.world.waiting(&self.door(), &start.agent, &start.conversation)?;
        Ok(waiting.filter(|waiting| waiting.run_id == run_id))
    }

    fn ask(&mut self) -> Result<(), Gone> {
        match self.asked(self.scene.asks())? {
            Some(waiting) if self.random.percent(35) => self.world.memory().waiting.push(waiting),
            Some(waiting) => self.answer(&waiting)?,
            None => {}
        }
        Ok(())
    }

    fn answer_any(&mut self) -> Result<(), Gone> {
        let waiting = {
            let mut memory = self.world.memory();
            let at = usize::try_from(self.random.below(memory.waiting.len() as u64)).unwrap_or(0);
            // It stays known: what was answered may be answered again, and is refused.
            if self.random.percent(80) && at < memory.waiting.len() {
                Some(memory.waiting.swap_remove(at))
            } else {
                memory.waiting.get(at).cloned()
            }
        };
        match waiting {
            Some(waiting) => self.answer(&waiting),
            None => self.ask(),
        }
    }

    /// One client answers, or two at once: with the same words under one key, or each with its own.
    fn answer(&mut self, waiting: &Waiting) -> Result<(), Gone> {
        let first = self.words(waiting);
        let second = match self.random.below(3) {
            0 => None,
            1 => Some(first.clone()),
            _ => Some(self.words(waiting)),
        };
        let (world, client, other_door) = (self.world, self.door(), self.door());
        let begun = std::thread::scope(|scope| {
            let other = second.map(|second| scope.spawn(move || world.answer(&other_door, &second)));
            let mine = world.answer(&client, &first);
            let others = other.map_or(Ok(None), |other| other.join().unwrap_or(Err(Gone)));
            Ok(mine?.or(others?))
        })?;
        if self.random.percent(20) {
            world.answer(&client, &first)?; // again: the same run, under a key
        }
        if let Some(run_id) = begun {
            self.follow(&run_id)?;
            // A run that asks again waits for somebody else.
            if let Some(again) = world.waiting(&client, &waiting.agent, &waiting.conversation)? {
                world.memory().waiting.push(again);
            }
        }
        Ok(())
    }

    fn words(&mut self, to: &Waiting) -> Answer {
        let op = self.world.op();
        let key = self.random.percent(60).then(|| format!("a{op}"));
        Answer { to: to.clone(), key, answer: words(&mut self.random, &to.request, op) }
    }

    fn cancel(&mut self) -> Result<(), Gone> {
        let Some((_, run_id)) = self.begin(self.scene.slows(), None)? else { return Ok(()) };
        if self.random.percent(70) {
            let most = usize::try_from(1 + self.random.below(8)).unwrap_or(1);
            self.world.follow(&self.door(), &run_id, "canonical", None, Some(most))?;
        }
        self.world.cancel(&self.door(), &run_id)?;
        self.follow(&run_id)
    }

    fn void(&mut self) -> Result<(), Gone> {
        match self.asked(self.scene.asks())? {
            Some(waiting) => self.world.cancel(&self.door(), &waiting.run_id),
            None => Ok(()),
        }
    }

    fn clear(&mut self) -> Result<(), Gone> {
        let of = if self.random.percent(50) { self.scene.talks() } else { self.scene.asks() };
        let Some((start, run_id)) = self.begin(of, None)? else { return Ok(()) };
        self.follow(&run_id)?;
        self.world.clear(&self.door(), &start.conversation)?;
        let word = self.any_of(self.scene.talks()).1;
        let more = self.request(&start.agent, word, Some(&start.conversation));
        match self.world.start(&self.door(), &more)? {
            Some(run_id) => self.follow(&run_id),
            None => Ok(()),
        }
    }

    fn delete(&mut self) -> Result<(), Gone> {
        // Of its own: a conversation that was to be deleted is never used again.
        let conversation = format!("d{}", self.world.op());
        let of = self.scene.deletes();
        let Some((_, run_id)) = self.begin(of, Some(&conversation))? else { return Ok(()) };
        self.follow(&run_id)?;
        self.world.delete(&self.door(), &conversation)
    }

    fn expire(&mut self) -> Result<(), Gone> {
        let Some(waiting) = self.asked(self.scene.expiring())? else { return Ok(()) };
        std::thread::sleep(Duration::from_millis(1100));
        self.world.show(&self.door(), &waiting.run_id)?;
        // Too late, or just not.
        let answer = self.words(&waiting);
        self.world.answer(&self.door(), &answer)?;
        Ok(())
    }

    fn repeat(&mut self) -> Result<(), Gone> {
        let (start, answer) = {
            let mut memory = self.world.memory();
            (memory.starts.pop(), memory.answers.pop())
        };
        let nothing = start.is_none() && answer.is_none();
        for run_id in [
            start.map(|start| self.world.start(&self.door(), &start)).transpose()?.flatten(),
            answer.map(|answer| self.world.answer(&self.door(), &answer)).transpose()?.flatten(),
        ]
        .into_iter()
        .flatten()
        {
            self.follow(&run_id)?;
        }
        if nothing { self.talk() } else { Ok(()) }
    }

    fn replay(&mut self) -> Result<(), Gone> {
        let run_id = self.random.pick(&self.world.memory().runs).cloned();
        let Some(run_id) = run_id else { return self.talk() };
        let run = self.world.show(&self.door(), &run_id)?;
        let last = run["last_sequence"].as_u64().unwrap_or(0);
        let after = self.random.percent(70).then(|| self.random.below(last.max(1)));
        let protocol = self.random.pick(PROTOCOLS).copied().unwrap_or("canonical");
        self.world.follow(&self.door(), &run_id, protocol, after, None)?;
        Ok(())
    }
}

/// An answer that fits what was asked, unlike any other.
fn words(random: &mut Random, request: &Value, op: u64) -> Value {
    if let Some(fields) = request["fields"].as_array() {
        if random.percent(25) {
            return json!({"dismissed": true});
        }
        let mut values = serde_json::Map::new();
        for field in fields {
            let Some(name) = field["field_name"].as_str() else { continue };
            let value = match field["field_values"].as_array() {
                Some(offered) => random.pick(offered).cloned().unwrap_or_default(),
                None => json!(format!("value {op}")),
            };
            values.insert(name.to_owned(), value);
        }
        return json!({"values": values});
    }
    let calls = request["tool_approvals"].as_array().cloned().unwrap_or_default();
    let decisions: Vec<Value> =
        calls.iter().zip(0..).map(|(call, at)| decision(random, call, &format!("{op}.{at}"))).collect();
    json!({"decisions": decisions})
}

fn decision(random: &mut Random, call: &Value, mark: &str) -> Value {
    let all = ["approve", "edit", "reject"].map(Value::from).to_vec();
    let allowed =
        call["allowed_decisions"].as_array().filter(|allowed| !allowed.is_empty()).cloned().unwrap_or(all);
    let decision = random.pick(&allowed).cloned().unwrap_or_default();
    let mut decided = json!({"tool_call_id": call["tool_call_id"], "decision": decision});
    match decided["decision"].as_str() {
        Some("edit") => {
            let mut arguments = call["tool_args"].clone();
            match arguments.get("line") {
                Some(_) => arguments["line"] = json!(format!("edited {mark}")),
                None => arguments["name"] = json!(format!("edited {mark}")),
            }
            decided["edited_args"] = arguments;
        }
        Some("reject") if random.percent(50) => decided["message"] = json!(format!("Not now. {mark}")),
        _ => {}
    }
    decided
}
