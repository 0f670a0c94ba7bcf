// What the scripted model does: for every agent the same cases, in the words of its tools. A case is played when the prompt
// has "[script AGENT.CASE]" in it. `seen` in a command's output is computed by the shell, so that it stands in a later
// request only if the command ran and its output came back.
// The pause is for Qwen Code, whose terminal loses the output of faster commands.
export const seen = (word) => `echo ${word}-$((40+2)); sleep 0.3`;
export const longText = (agent) =>
  Array.from({ length: 40 }, (_, line) => `line ${line + 1} of the file of many lines by ${agent}\n`).join('');
export const GREETING = 'Hello from the scripted model, all is well.';
export const HELLO = 'hello\nworld "quoted" \u00e9\n';

// The steps of every case. `tools` turns an intent into a call: shell(command), write(path, text), edit(path, from, to),
// read(path), image(path), helper(prompt) for a sub-agent, and those of an MCP server, note() and picture(),
// after find() where they are found by a tool; `work` is the folder of the agent.
export function agentScripts(agent, tools, work) {
  const file = (name) => `${work}/${name}`;
  const cases = {
    task: [
      { think: `First I look at the folder of ${agent}.`, text: 'I look at the folder first.', calls: [tools.shell(`${seen('first')}; ls -la`)] },
      { text: 'I write a file.', calls: [tools.write(file('hello.txt'), HELLO)] },
      { think: `Two calls at once for ${agent}.`, calls: [tools.shell(seen('one')), tools.shell(seen('two'))] },
      ...(tools.readFirst ? [{ calls: [tools.read(file('hello.txt'))] }] : []),
      { calls: [tools.edit(file('hello.txt'), 'hello', 'goodbye')] },
      { think: 'All is done now.', text: `The task is done by ${agent}.` },
    ],
    binary: [
      { text: 'I print odd bytes.', calls: [tools.shell(`${seen('odd')}; printf 'a\\000b\\033[31mred\\377\\376\\010\\n'`)] },
      ...(tools.read ? [{ text: 'I read an odd file.', calls: [tools.read(file('odd.bin'))] }] : []),
      { text: `The odd bytes are seen by ${agent}.` },
    ],
    emoji: [
      { text: 'I print many faces.', calls: [tools.shell(`cat ${file('faces.txt')}`)] },
      ...(tools.read ? [{ text: 'I read many faces.', calls: [tools.read(file('faces.txt'))] }] : []),
      { text: `The faces are seen by ${agent}.` },
    ],
    image: [
      { text: 'I look at the picture.', calls: [tools.image(file('dot.png'))] },
      { text: `The picture is seen by ${agent}.` },
    ],
    ...(tools.note ? { mcp: [
      ...(tools.find ? [{ text: 'I look for a tool.', calls: [tools.find()] }] : []),
      { text: 'I note it.', calls: [tools.note()] },
      { text: 'I get a picture.', calls: [tools.picture()] },
      { text: `The note and the picture are done by ${agent}.` },
    ] } : {}),
    ...(tools.helper ? { helper: [
      { text: 'I ask a helper.', calls: [tools.helper('Say hello, please.')] },
      { text: `The helper has answered ${agent}.` },
    ] } : {}),
    cut: [
      { text: 'I write a long file.', calls: [tools.write(file('long.txt'), longText(agent))] },
      { text: `The long file is done by ${agent}.` },
    ],
    // In another dress than the model's own, in which what it writes is held to JSON. Were it JSON, it would be a call.
    broken: [
      { text: [`The broken call is over by ${agent}.`, '```json',
        `{"name": "${tools.shell('').name}", "arguments": ${tools.brokenShell(`touch ${file('broken.txt')}`)}}}`, '```'].join('\n') },
    ],
    fill: [
      ...Array.from({ length: 24 }, (_, step) => ({ text: `I fill the context of ${agent} by ${step}.`,
        calls: [tools.shell(`printf 'the model reads the file of the context and %.0s' $(seq 500); echo "[step ${step}]"`)] })),
      { text: `It went on after the full context of ${agent}.` },
    ],
    again: [
      { text: 'I go on.', calls: [tools.shell(seen('again'))] },
      { text: `The session goes on for ${agent}.` },
    ],
    long: [{ text: Array.from({ length: 3000 }, (_, line) => `Line ${line} of a long story for ${agent}.\n`).join('') }],
    after: [
      { text: 'I go on after the summary.', calls: [tools.shell(seen('after'))] },
      { text: `It went on after the summary for ${agent}.` },
    ],
  };
  const needs = tools.shell('').name;
  return [
    ...Object.entries(cases).map(([name, steps]) =>
      ({ name: `${agent}.${name}`, needs: name === 'mcp' && !tools.find ? tools.note().name : needs, steps })),
    { name: `${agent}.summary`, steps: [{ text: `The context was filled. [script ${agent}.after]` }] },
  ];
}

// For libraries, which bring one tool.
export const LIBRARY_SCRIPTS = [
  { name: 'hello', steps: [{ think: 'A short hello will do here.', text: GREETING }] },
  { name: 'summary', steps: [{ text: 'A summary of what was said before.' }] },
  { name: 'weather', needs: 'get_weather', steps: [
    { think: 'The user wants the weather.', text: 'Let me look.', calls: [{ name: 'get_weather', args: { city: 'Oslo' } }] },
    { text: 'It is sunny in Oslo.' }] },
  { name: 'two', needs: 'get_weather', steps: [
    { calls: [{ name: 'get_weather', args: { city: 'Oslo' } }, { name: 'get_weather', args: { city: 'Rome' } }] },
    { text: 'Oslo and Rome are sunny.' }] },
  { name: 'cut', needs: 'get_weather', steps: [
    { calls: [{ name: 'get_weather', args: { city: 'Reykjavik and all of the many villages around it, as far as Keflavik' } }] },
    { text: 'The cut call is over.' }] },
  { name: 'json', steps: [{ text: '{"city": "Oslo", "degrees": 20, "sunny": true}' }] },
  { name: 'story', steps: [{ text: Array.from({ length: 400 }, (_, line) => `Sentence ${line} of the story. `).join('') }] },
];
