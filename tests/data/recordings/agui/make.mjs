// Writes the streams of this folder: frames by @ag-ui/encoder, every event checked by the schemas of @ag-ui/core, every run by
// verifyEvents of @ag-ui/client. Run it once beside the packages of 1.0.0 and once, with --check, beside those of 0.0.59:
//   npm i @ag-ui/core@1.0.0 @ag-ui/client@1.0.0 @ag-ui/encoder@1.0.0 && node make.mjs DIR [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { from, lastValueFrom, toArray } from 'rxjs';
import * as core from '@ag-ui/core';
import { verifyEvents, transformChunks } from '@ag-ui/client';
import { EventEncoder } from '@ag-ui/encoder';

const [dir, check] = process.argv.slice(2);
const today = !check;
const schemas = today ? await import('@ag-ui/core/schemas') : core;
const EventSchema = schemas.EventSchemas ?? schemas.EventSchema;

let now = 1786924800000;
const T = 'thread-1';
const start = (run, more = {}) => ({ type: 'RUN_STARTED', threadId: T, runId: run, protocolVersion: '1.0', ...more });
const end = (run, more = {}) => ({ type: 'RUN_FINISHED', threadId: T, runId: run, outcome: { type: 'success' }, ...more });
const say = (id, ...pieces) => [
  { type: 'TEXT_MESSAGE_START', messageId: id, role: 'assistant' },
  ...pieces.map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: id, delta })),
  { type: 'TEXT_MESSAGE_END', messageId: id },
];
const call = (id, name, pieces, more = {}) => [
  { type: 'TOOL_CALL_START', toolCallId: id, toolCallName: name, ...more },
  ...pieces.map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId: id, delta, ...(more.subagentRunId && { subagentRunId: more.subagentRunId }) })),
  { type: 'TOOL_CALL_END', toolCallId: id, ...(more.subagentRunId && { subagentRunId: more.subagentRunId }) },
];
const result = (id, content, more = {}) => ({ type: 'TOOL_CALL_RESULT', messageId: `m-${id}`, toolCallId: id, content, role: 'tool', ...more });
const input = (run, resume) => ({ threadId: T, runId: run, state: {}, messages: [], tools: [], context: [], forwardedProps: {}, resume });
const usage = [{ provider: 'example', model: 'example-1', inputTokens: 12, outputTokens: 7, cachedInputTokens: 4 }];
const inside = (run) => ({ subagentRunId: run });
const tool = (id, name, args, more) => ({ id, name, args, ...more });

const scenarios = [
  ['text', 'text in pieces, with usage; state and steps beside it', [
    start('r1'), { type: 'STEP_STARTED', stepName: 'answer' }, { type: 'STATE_SNAPSHOT', snapshot: { n: 1 } },
    ...say('m1', 'Hello', ', ', 'Ödland\u2028!'), { type: 'STEP_FINISHED', stepName: 'answer' },
    { type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm1', role: 'assistant', content: 'Hello, Ödland\u2028!' }] },
    end('r1', { usage }),
  ], { terminal: 'success', final_text: 'Hello, Ödland\u2028!', usage: { input_tokens: 12, output_tokens: 7 } }],
  ['chunks', 'text, reasoning and a call as chunks, which have neither start nor end', [
    start('r1'),
    { type: 'REASONING_MESSAGE_CHUNK', messageId: 'q1', delta: 'Think' }, { type: 'REASONING_MESSAGE_CHUNK', delta: ' first.' },
    { type: 'TOOL_CALL_CHUNK', toolCallId: 'c1', toolCallName: 'look', delta: '{"at":' }, { type: 'TOOL_CALL_CHUNK', delta: '"it"}' },
    result('c1', 'seen'),
    { type: 'TEXT_MESSAGE_CHUNK', messageId: 'm1', role: 'assistant', delta: 'Do' }, { type: 'TEXT_MESSAGE_CHUNK', delta: 'ne.' },
    end('r1'),
  ], { terminal: 'success', final_text: 'Done.', reasoning: 'Think first.', tool_calls: [tool('c1', 'look', { at: 'it' }, { result: 'seen' })] }],
  ['reasoning', 'reasoning and then text', [
    start('r1'), { type: 'REASONING_START', messageId: 'q1' }, { type: 'REASONING_MESSAGE_START', messageId: 'q1', role: 'reasoning' },
    { type: 'REASONING_MESSAGE_CONTENT', messageId: 'q1', delta: 'Weigh' }, { type: 'REASONING_MESSAGE_CONTENT', messageId: 'q1', delta: ' it.' },
    { type: 'REASONING_MESSAGE_END', messageId: 'q1' }, { type: 'REASONING_END', messageId: 'q1' },
    { type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: 'q1', encryptedValue: 'canary-encrypted' },
    ...say('m1', 'Weighed.'), end('r1'),
  ], { terminal: 'success', final_text: 'Weighed.', reasoning: 'Weigh it.' }],
  ['tools', 'two calls at once, one without arguments, results in the other order', [
    start('r1'), ...say('m1', 'Looking.'),
    { type: 'TOOL_CALL_START', toolCallId: 'c1', toolCallName: 'get_weather', parentMessageId: 'm1' },
    { type: 'TOOL_CALL_START', toolCallId: 'c2', toolCallName: 'get_time', parentMessageId: 'm1' },
    { type: 'TOOL_CALL_ARGS', toolCallId: 'c1', delta: '{"city"' }, { type: 'TOOL_CALL_ARGS', toolCallId: 'c1', delta: ':"Os}lo"}' },
    { type: 'TOOL_CALL_END', toolCallId: 'c1' }, { type: 'TOOL_CALL_END', toolCallId: 'c2' },
    result('c2', '12:00'), result('c1', '18 C'), ...say('m2', '18 C at noon.'), end('r1', { usage }),
  ], { terminal: 'success', final_text: '18 C at noon.', usage: { input_tokens: 12, output_tokens: 7 }, tool_calls: [
    tool('c1', 'get_weather', { city: 'Os}lo' }, { result: '18 C' }), tool('c2', 'get_time', {}, { result: '12:00' })] }],
  ['client_tool', 'a call of the client ends the run open', [
    start('r1'), ...call('c1', 'confirm', ['{"q":1}']), end('r1'),
  ], { terminal: 'success', final_text: '', tool_calls: [tool('c1', 'confirm', { q: 1 })] }],
  ['subagents', 'a subagent under its call, with a call of its own', [
    start('r1'), ...call('d1', 'task', ['{"subagent_type":"helper"}']),
    { type: 'SUBAGENT_STARTED', subagentRunId: 's1', name: 'helper', parentToolCallId: 'd1' },
    ...call('c1', 'look', ['{}'], inside('s1')), result('c1', 'seen', inside('s1')),
    ...say('m1', 'Found.').map((event) => ({ ...event, ...inside('s1') })),
    { type: 'SUBAGENT_FINISHED', subagentRunId: 's1', outcome: { type: 'success' } },
    result('d1', 'Found.'), ...say('m2', 'It was found.'), end('r1'),
  ], { terminal: 'success', final_text: 'It was found.', tool_calls: [
    tool('d1', 'task', { subagent_type: 'helper' }, { result: 'Found.' }), tool('c1', 'look', {}, { result: 'seen', parent_tool_call_id: 'd1' })],
    subagents: [{ name: 'helper', parent_tool_call_id: 'd1', outcome: 'success', text: 'Found.' }] }],
  ['subagent_alone', 'a subagent that no call started, and that fails', [
    start('r1'), { type: 'SUBAGENT_STARTED', subagentRunId: 'inner', name: 'inner' },
    ...say('m1', 'Half').map((event) => ({ ...event, ...inside('inner') })),
    { type: 'SUBAGENT_ERROR', subagentRunId: 'inner', message: 'canary: Traceback /srv/app.py', code: 'boom' },
    end('r1'),
  ], { terminal: 'success', final_text: 'Half', subagents: [{ name: 'inner', outcome: 'error', text: 'Half' }] }],
  ['approval', 'two calls wait for approval; one is edited, one refused', [
    start('r1'), ...call('c1', 'restart', ['{"name":"db"}']), ...call('c2', 'delete', ['{"name":"old"}']),
    end('r1', { outcome: { type: 'interrupt', interrupts: [
      { id: 'i1', reason: 'tool_call', toolCallId: 'c1', message: 'Restart?', responseSchema: { type: 'object', properties: { approved: { type: 'boolean' }, editedArgs: { type: 'object' } } } },
      { id: 'i2', reason: 'tool_call', toolCallId: 'c2', message: 'Delete?' }] } }),
    start('r2', { parentRunId: 'r1', input: input('r2', [
      { interruptId: 'i1', status: 'resolved', payload: { approved: true, editedArgs: { name: 'web' } } },
      { interruptId: 'i2', status: 'resolved', payload: { approved: false } }]) }),
    result('c1', 'restarted web'), result('c2', 'The user refused.'), ...say('m1', 'Restarted web.'), end('r2'),
  ], { turns: ['interrupt', 'success'], final_text: 'Restarted web.', tool_calls: [
    tool('c1', 'restart', { name: 'db' }, { executed_args: { name: 'web' }, result: 'restarted web' }),
    tool('c2', 'delete', { name: 'old' }, { error: 'The user refused.' })],
    interrupts: [{ type: 'tool_approval', tools: [{ tool_call_id: 'c1', name: 'restart', args: { name: 'db' } }, { tool_call_id: 'c2', name: 'delete', args: { name: 'old' } }] }] }],
  ['form', 'a form by its schema, filled in', [
    start('r1'), ...say('m1', 'One question.'),
    end('r1', { outcome: { type: 'interrupt', interrupts: [{ id: 'i1', reason: 'input_required', message: 'Where to?',
      responseSchema: { type: 'object', properties: { city: { type: 'string', title: 'City' }, days: { type: 'integer' } }, required: ['city'] } }] } }),
    start('r2', { parentRunId: 'r1', input: input('r2', [{ interruptId: 'i1', status: 'resolved', payload: { city: 'Oslo' } }]) }),
    ...say('m2', 'To Oslo.'), end('r2'),
  ], { turns: ['interrupt', 'success'], final_text: 'To Oslo.', interrupts: [{ type: 'form', prompt: 'Where to?', fields: ['city', 'days'] }] }],
  ['error', 'a failure in the middle of a text', [
    start('r1'), { type: 'TEXT_MESSAGE_START', messageId: 'm1', role: 'assistant' }, { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm1', delta: 'Hal' },
    { type: 'RUN_ERROR', message: 'canary: 429 from https://key@provider.example', code: 'rate_limit_exceeded' },
  ], { terminal: 'error', final_text: 'Hal', retryable: true }],
  ['cancelled', 'a run that was cancelled', [
    start('r1'), ...say('m1', 'Half'), end('r1', { outcome: { type: 'cancelled' } }),
  ], { terminal: 'cancelled', final_text: 'Half' }, ['1.0.0']],
  ['thinking', 'the reasoning of older servers', [
    start('r1', { protocolVersion: undefined }), { type: 'THINKING_START', title: 'Plan' }, { type: 'THINKING_TEXT_MESSAGE_START' },
    { type: 'THINKING_TEXT_MESSAGE_CONTENT', delta: 'Old ways.' }, { type: 'THINKING_TEXT_MESSAGE_END' }, { type: 'THINKING_END' },
    ...say('m1', 'Done.'), { type: 'RUN_FINISHED', threadId: T, runId: 'r1' },
  ], { terminal: 'success', final_text: 'Done.', reasoning: 'Old ways.' }, ['0.0.59']],
];

const encoder = new EventEncoder();
for (const [name, scenario, events, , versions = ['0.0.59', '1.0.0']] of scenarios) {
  const ours = versions.includes(today ? '1.0.0' : '0.0.59');
  const stamped = events.map((event) => ({ ...event, timestamp: (now += 5) }));
  const plain = JSON.parse(JSON.stringify(stamped));
  if (ours) {
    for (const event of plain) EventSchema.parse(event);
    await lastValueFrom(from(plain).pipe(transformChunks(false), verifyEvents(false), toArray()));
  }
  const text = plain.map((event) => encoder.encodeSSE ? encoder.encodeSSE(event) : encoder.encode(event)).join('');
  const file = `${dir}/${name}.sse`;
  if (today) writeFileSync(file, text);
  else if (ours && readFileSync(file, 'utf8') !== text) throw new Error(`${file} differs`);
  console.log(name, ours ? 'checked' : 'left out', plain.length, 'events:', scenario);
}
if (today) {
  const index = scenarios.map(([name, scenario, events, expected, versions = ['0.0.59', '1.0.0']]) => ({
    name, file: `${name}.sse`, harness: 'agui', versions: { '@ag-ui/core': versions.join(', ') }, scenario,
    how_made: 'make.mjs: events written by hand, frames by @ag-ui/encoder, checked by @ag-ui/core and @ag-ui/client',
    origin: 'real encoder and schemas, synthetic server', lines: events.length * 2,
    expected: { tool_calls: [], interrupts: [], subagents: [], ...expected },
  }));
  writeFileSync(`${dir}/index.json`, `${JSON.stringify(index, null, 1)}\n`);
}
