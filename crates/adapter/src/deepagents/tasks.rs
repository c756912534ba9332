//! Items of mode `tasks`: which call a task runs. They open the namespaces of subagents, and start calls that a run does
//! not otherwise mention (on a resume, after a crash).

use causeway_contract::event::NamespaceEntered;

use super::DeepAgents;
use super::native::{TASK, task_calls};
use crate::adapter::ItemError;
use crate::json::Json;
use crate::spaces::label;
use crate::text;

impl DeepAgents {
    pub(super) fn task(&mut self, source: &[Json<'_>], data: &Json<'_>) -> Result<(), ItemError> {
        let Some(task) = data.str("id").map(|id| id.lossy().into_owned()) else { return Ok(()) };
        if let Some(input) = data.get("input") {
            return self.task_starts(source, &task, data.text("name") == Some("tools"), input);
        }
        let namespace = self.spaces.resolve(source);
        for interrupt in data.list("interrupts") {
            let Some(id) = interrupt.str("id") else { continue };
            let call = self.tasks.get(&task).and_then(|calls| calls.first()).copied();
            self.place(&id.lossy(), &namespace, call);
        }
        Ok(())
    }

    fn task_starts(
        &mut self,
        source: &[Json<'_>],
        task: &str,
        tools: bool,
        input: &Json<'_>,
    ) -> Result<(), ItemError> {
        let calls = task_calls(input);
        let mut places = Vec::new();
        let mut delegation = None;
        for call in calls {
            let Some((native, name)) = call.str("id").zip(call.str("name")) else { continue };
            let (native, name) = (native.lossy().into_owned(), name.lossy());
            let delegates = name == TASK && delegation.is_none();
            if !tools && !delegates {
                continue;
            }
            let namespace = self.spaces.resolve(source);
            if !self.calls.knows_in(&native, &namespace) {
                let resumes = self.resume.as_ref().is_some_and(|resume| !resume.open_calls.is_empty());
                if resumes && self.calls.inherits(&native, &namespace).is_none() {
                    continue; // it ended in the interrupted run, and was shown there
                }
                self.start(&native, &name, call.get("args"), &namespace, None, None)?;
            }
            let Some(at) = self.calls.unbound_in(&native, &namespace) else { continue };
            if let Some(open) = self.calls.get_mut(at) {
                open.bound = true;
            }
            places.push(at);
            if delegates {
                delegation = Some((at, call));
            }
        }
        if let Some((at, call)) = delegation {
            self.enter(source, task, at, call);
        }
        if !places.is_empty() && self.tasks.len() < self.options.limits.tool_calls {
            self.tasks.insert(task.to_owned(), places);
        }
        Ok(())
    }

    fn enter(&mut self, source: &[Json<'_>], task: &str, at: usize, native: &Json<'_>) {
        let Some(call) = self.calls.get(at) else { return };
        let id = call.id.clone();
        let given = native
            .get("args")
            .and_then(|args| args.str("subagent_type"))
            .map(|kind| kind.lossy().into_owned());
        let kind = given.unwrap_or_else(|| {
            let arguments = Json::parse(call.arguments.as_bytes()).unwrap_or(Json::Null);
            arguments.str("subagent_type").map(|kind| kind.lossy().into_owned()).unwrap_or_default()
        });
        let max = self.options.limits.id_bytes;
        let agent_id = text::name(&kind, "subagent", max);
        let agent_name = text::name(&label(agent_id.as_str()), "Subagent", max);
        if let Some(space) = self.spaces.enter(source, task, &id, agent_id, &self.options.limits) {
            let data = NamespaceEntered { agent_id: space.agent_id, agent_name, parent_tool_call_id: id };
            self.draft(space.path, data);
        }
    }
}
