import { readFileSync } from 'node:fs'

interface StoredFigure {
  name: string
  value: number
  unit: string
  notes: string[]
}

/** Returns the page about what flows of policies stop, from the figures that were measured last. */
export function guards(generated: string): string {
  const text = readFileSync(new URL('guard-figures.json', import.meta.url), 'utf8')
  const figures = JSON.parse(text) as StoredFigure[]
  const shown = (name: string): string => {
    const { value, unit } = figures.find((one) => one.name === name)!
    return `${value} ${unit}`.trim()
  }
  const row = (flow: string, labels: string): string =>
    `| ${flow} | ${labels} | ${['attacks blocked', 'tasks without an ask', 'asks a task', 'asks without attacks']
      .map((what) => shown(`${flow}, ${labels}: ${what}`))
      .join(' | ')} |`
  const rows = ['shipped labels', 'labels by hand', 'guessed labels'].flatMap((labels) =>
    ['default', 'strict'].map((flow) => row(flow, labels)),
  )
  const suites = figures
    .find(({ name }) => name === 'default, shipped labels: attacks blocked')!
    .notes.map((note) => `- ${note}`)
  return `# What the flow of policies stops, and what it cannot see

${generated}

A policy with a \`flow\` asks before calls that have an effect after untrusted text was read ([guide](../guide/policies.md#flows)). This page says how often that stops an attack, how often it asks for nothing, and what passes.

The figures are measured on recorded tasks, which are not part of this repository: the suites workspace and travel of [AgentDojo](https://github.com/ethz-spylab/agentdojo) with their attacks, and airline and retail of [tau2-bench](https://github.com/sierra-research/tau2-bench) without attacks. \`npm run bench -- guards --data <folder>\` prints them, \`node --conditions=wardline-source docs/guard-figures.ts <folder>\` stores them for this page.

| Flow | Labels | Attacks blocked | Tasks without an ask | Asks a task | Asks in 164 tasks of tau2 |
|---|---|---|---|---|---|
${rows.join('\n')}

Attacks blocked: the calls of the task up to the first answer with the attacker's text, then exactly the attacker's calls, each ask refused; blocked if at least one call does not run. Asks a task: the calls of the task alone, each ask granted. *Shipped labels* are the packs, *labels by hand* those that a reader of the tasks wrote, *guessed labels* come from the names, descriptions and arguments of the tools.

With \`default\` and shipped labels:

${suites.join('\n')}

Guessed labels find ${shown('guessed: sends')} of the tools that send, and ${shown('guessed: untrusted')} of those that return text of strangers.

## What a policy cannot see

- **Amounts and contents.** A mail to the right person with the wrong text passes, and so does a payment of another amount to an account of the prompt. Rules see arguments: \`limit: { total, of, within }\` and \`amount|gt\` bound what a flow does not.
- **A destination of the person's own.** An attacker who gets an agent to book the hotel that the prompt names, or to write to a colleague of the prompt, uses a destination that is proven.
- **What only changes, with \`default\`.** An entry in a calendar without guests can be undone, so only \`strict\` asks about it. Most attacks of the travel suite that pass are of this kind, or are only sentences in the answer.
- **Text.** An agent that is turned into praising a hotel calls no tool.
- **A tool that lies.** Labels say what a tool does; a server that copies every mail while it sends one is not seen in its arguments. Only its provenance helps, and a rule on its address.
- **What the agent wrote itself.** With \`default\`, an address that the session has seen may be fetched, and a directory may be filled by the agent: one that writes an address into a file and reads it, or adds a contact and looks it up, has made the proof itself. \`strict\` asks about the writing, as do labels: \`add_contact: { is: [irreversible] }\`.
- **A session that forgot.** A session remembers 14,000 words of prompts and 6,000 values and addresses. What is forgotten is asked about, never allowed.
- **Attacks made for this policy.** The attacks are static. An attacker who knows the labels looks for a tool with an effect and a wrong label. Tools without labels count as sending.

The tasks are few: differences below 9 points say nothing.
`
}
