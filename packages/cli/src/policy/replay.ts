import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { isForAgent, type ListedTool, type Policy, PolicyDecider, SessionMemory } from '@wardline/policy'
import { counted, safeJson } from '@wardline/text'
import { notReadable, type PolicyFiles, readPolicyFile, readText, readTools } from './files.ts'

/** A session as it was recorded, and what its tools answered. */
interface Session {
  id?: unknown
  prompt?: string | null
  agent?: string
  tags?: string[]
  calls: { tool: string; args?: Record<string, unknown>; result?: unknown; at?: string | number }[]
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

export async function replay(file: string, options: ReplayOptions): Promise<void> {
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
