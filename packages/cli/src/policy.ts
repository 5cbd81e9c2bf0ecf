import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  guessLabels,
  isForAgent,
  type ListedTool,
  lintPolicy,
  type Policy,
  PolicyDecider,
  type PolicyFault,
  packs,
  readLabels,
  readPolicy,
  SessionMemory,
} from '@wardline/policy'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { exitCodes, Failure } from './exit.ts'

/** A session as it was recorded, and what its tools answered. */
interface Session {
  id?: unknown
  prompt?: string | null
  agent?: string
  tags?: string[]
  calls: { tool: string; args?: Record<string, unknown>; result?: unknown; at?: string | number }[]
}

interface PolicyFiles {
  policy: string
  tools?: string
  labels?: string
}

const notReadable = (file: string, why: string): Failure => new Failure(`${file}: ${why}`, 'invalid', 'failed')

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (fault) {
    throw notReadable(file, `it cannot be read (${(fault as { code?: string }).code ?? 'unknown'}).`)
  }
}

/** Reads a YAML or JSON document: JSON is YAML. */
async function readDocument(file: string): Promise<unknown> {
  const { parse } = await import('yaml')
  const text = readText(file)
  try {
    return parse(text, { maxAliasCount: 0 })
  } catch (fault) {
    throw notReadable(file, (fault as Error).message.split('\n')[0]!)
  }
}

/** Reads what MCP's `tools/list` answers: the list, or the whole result. */
async function readTools(file: string | undefined): Promise<ListedTool[]> {
  if (file === undefined) return []
  const document = (await readDocument(file)) as { tools?: unknown } | unknown[] | null
  const list = Array.isArray(document) ? document : document?.tools
  if (!Array.isArray(list) || !list.every((tool) => typeof tool?.name === 'string')) {
    throw notReadable(file, 'it must be a list of tools with a name, as tools/list of MCP answers.')
  }
  return list as ListedTool[]
}

const faultLine = (file: string, { path, message }: PolicyFault): string =>
  sanitize(`${file}: ${path === '' ? 'the document' : path} ${message}`)

function refuse(file: string, faults: readonly PolicyFault[]): void {
  if (faults.length === 0) return
  for (const fault of faults) console.error(faultLine(file, fault))
  throw notReadable(file, `it has ${counted(faults.length, 'fault')}.`)
}

async function readPolicyFile({ policy: file, labels: labelFile }: PolicyFiles): Promise<Policy> {
  const { policy, faults } = readPolicy(await readDocument(file))
  refuse(file, faults)
  if (labelFile === undefined) return policy
  const further = readLabels(await readDocument(labelFile))
  refuse(labelFile, further.faults)
  return { ...policy, labels: new Map([...policy.labels, ...further.labels]) }
}

async function lint(file: string, { tools, json }: { tools?: string; json?: boolean }): Promise<void> {
  const listed = await readTools(tools)
  const { policy, faults: unreadable } = readPolicy(await readDocument(file))
  const faults = unreadable.length > 0 ? unreadable : lintPolicy(policy, listed, Date.now())
  if (faults.length > 0) process.exitCode = exitCodes.failed
  if (json) return console.log(safeJson({ faults }, 2))
  for (const fault of faults) console.log(faultLine(file, fault))
  if (faults.length === 0) console.error(`-- ${counted(policy.rules.length, 'rule')}, flow ${policy.flow}, no faults`)
}

interface ReplayOptions extends PolicyFiles {
  stopOn?: 'ask' | 'deny'
}

/** Decides on the calls of a session in order. A call that is denied did not run, and so answered nothing. */
function replaySession(
  session: Session,
  policy: Policy,
  tools: readonly ListedTool[],
  stopOn: ReplayOptions['stopOn'],
) {
  const memory = new SessionMemory()
  if (session.prompt) memory.prompt(session.prompt)
  // A recording that says of no agent is meant to be one of those that the policy is for.
  const { agent, tags } = session
  const whom = { ...(agent === undefined ? {} : { id: agent }), ...(tags === undefined ? {} : { tags }) }
  const isMeant = (agent === undefined && tags === undefined) || isForAgent(policy.for, whom)
  const read = { id: '', title: policy.title, version: 1, mode: 'enforce', policy } as const
  const decider = new PolicyDecider(whom, isMeant ? [read] : [], tools)
  const decisions: object[] = []
  for (const [index, { tool, args = {}, result, at }] of session.calls.entries()) {
    const time = at === undefined ? 0 : new Date(at).getTime()
    const { decision, rule, why } = decider.decide(memory, { tool, args, at: time })
    decisions.push({ index, tool, decision, rule, why })
    if (decision === 'deny' ? stopOn !== undefined : decision === 'ask' && stopOn === 'ask') break
    if (decision !== 'deny') decider.learn(memory, { tool, args }, result)
  }
  return { id: session.id, decisions }
}

function readSession(line: string, file: string, number: number): Session {
  const invalid = (why: string) => notReadable(`${file}:${number}`, why)
  let session: Session
  try {
    session = JSON.parse(line) as Session
  } catch {
    throw invalid('the line is not JSON.')
  }
  if (typeof session !== 'object' || session === null || !Array.isArray(session.calls)) {
    throw invalid('a session must be { id, prompt, calls: [{ tool, args, result }] }.')
  }
  if (session.prompt != null && typeof session.prompt !== 'string') throw invalid('prompt must be a text.')
  for (const [index, call] of session.calls.entries()) {
    const { args = {}, at } = call ?? {}
    if (typeof call?.tool !== 'string') throw invalid(`calls[${index}].tool must be a text.`)
    if (typeof args !== 'object' || args === null || Array.isArray(args))
      throw invalid(`calls[${index}].args must be a map.`)
    if (at !== undefined && Number.isNaN(new Date(at).getTime())) throw invalid(`calls[${index}].at must be a time.`)
  }
  return session
}

async function replay(file: string, options: ReplayOptions): Promise<void> {
  const policy = await readPolicyFile(options)
  const tools = await readTools(options.tools)
  readText(file)
  const count = { sessions: 0, asked: 0, denied: 0 }
  let number = 0
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1
    if (line.trim() === '') continue
    const { id, decisions } = replaySession(readSession(line, file, number), policy, tools, options.stopOn)
    console.log(safeJson({ id: id ?? number, decisions }))
    count.sessions += 1
    for (const { decision } of decisions as { decision: string }[]) {
      if (decision === 'ask') count.asked += 1
      if (decision === 'deny') count.denied += 1
    }
  }
  console.error(
    `-- ${counted(count.sessions, 'session')}, ${counted(count.asked, 'call')} asked, ${count.denied} denied`,
  )
}

/** Prints the labels of tools in the form in which a policy writes them, as a file to begin with. */
async function labels(toolFile: string): Promise<void> {
  const { stringify } = await import('yaml')
  const known = readLabels(Object.keys(packs)).labels
  const listed = (await readTools(toolFile)).map((tool) => {
    const { is, destination, when } = known.get(tool.name.toLowerCase()) ?? guessLabels(tool)
    const conditions = Object.keys(when).length > 0 ? { when } : {}
    return [sanitize(tool.name), { is, ...(destination.length > 0 ? { destination } : {}), ...conditions }] as const
  })
  process.stdout.write(stringify(Object.fromEntries(listed), { flowCollectionPadding: true }))
}

export function addPolicy(program: Command): void {
  const policy = program.command('policy').description('decide on tool calls before they run: check and try a policy')
  policy
    .command('lint')
    .description('find faults in a policy: its form, its cases, rules that never decide, arguments that no tool has')
    .argument('<file>', 'policy, YAML or JSON')
    .option('--tools <file>', 'what the servers answer to tools/list')
    .option('--json', 'print JSON')
    .action(lint)
  policy
    .command('replay')
    .description('print what a policy decides on recorded sessions, a line of JSON for each')
    .argument('<sessions>', 'lines of { id, prompt, calls: [{ tool, args, result }] }')
    .requiredOption('--policy <file>', 'policy, YAML or JSON')
    .option('--tools <file>', 'what the servers answer to tools/list: labels of tools that no other file names')
    .option('--labels <file>', 'labels of tools; they win over those of the policy')
    .addOption(
      new Option(
        '--stop-on <decision>',
        'end a session at the first such decision (default: each ask counts as granted)',
      ).choices(['ask', 'deny']),
    )
    .action(replay)
  policy
    .command('labels')
    .description('print labels for tools, from the packs and else guessed, to review and put into a policy')
    .argument('<tools>', 'what the servers answer to tools/list')
    .action(labels)
}
