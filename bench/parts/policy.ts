import { PolicySet, SessionMemory } from '../../packages/policy/src/index.ts'
import type { Figure } from '../report.ts'
import { quantile } from '../statistics.ts'

const rules = Array.from({ length: 50 }, (_, index) => {
  const kinds = [
    { match: { tool: [`tool_${index}`, `Bash(command-${index} *)`] } },
    {
      match: { tool: 'send_*' },
      when: { 'to|not_host': ['example.com', `h${index}.example`], 'amount|gt': 10 * index },
    },
    { match: { tool: '*' }, when: { '*|path': ['~/.ssh/**', `secret-${index}/**`] } },
    { match: { tool: 'send_email' }, when: { 'subject|re': `(?i)\\bword${index}\\b` } },
    { match: { tool: 'send_email' }, limit: { calls: 900 + index, within: '1d' } },
  ]
  return { title: `Rule ${index}`, decision: index % 2 === 0 ? 'ask' : 'deny', ...kinds[index % kinds.length] }
})
const document = { title: 'Bench', flow: 'strict', labels: ['office', 'coding'], rules }

/** A session that remembers as much as it may. */
function fullMemory(set: PolicySet): SessionMemory {
  const memory = new SessionMemory()
  memory.prompt(Array.from({ length: 20_000 }, (_, index) => `word${index}`).join(' '))
  set.learn(memory, { tool: 'get_received_emails', args: {} }, 'Hello')
  const people = Array.from({ length: 5_000 }, (_, index) => `person${index}@example.com`)
  for (const half of [people, people.map((one) => `x${one}`)])
    set.learn(memory, { tool: 'search_contacts', args: {} }, half)
  const addresses = Array.from({ length: 8_000 }, (_, index) => `https://host${index}.example/`)
  set.learn(memory, { tool: 'get_received_emails', args: {} }, addresses.join(' '))
  return memory
}

/** Decisions of a policy with 50 rules, in a session of 256 KiB. */
export async function measurePolicy(): Promise<Figure[]> {
  const policies = [{ id: 'p', title: 'Bench', version: 1, mode: 'enforce' as const, document }]
  const set = new PolicySet({ agent: { id: 'bench', tags: [] }, policies })
  const memory = fullMemory(set)
  const calls = [
    (index: number) => ({
      tool: 'send_email',
      args: { to: [`xperson${index % 5_000}@example.com`], subject: 'Invoice', body: 'text '.repeat(200) },
    }),
    (index: number) => ({ tool: 'Bash', args: { command: `cd /srv && sudo -u app npm run build-${index} | tee log` } }),
    (index: number) => ({ tool: 'Read', args: { file_path: `/srv/app/src/file-${index}.ts` } }),
    (index: number) => ({ tool: 'WebFetch', args: { url: `https://host${index % 8_000}.example/` } }),
  ]
  const decide = (index: number): number => {
    const call = calls[index % calls.length]!(index)
    const began = performance.now()
    set.decide(memory, { ...call, at: 1_770_000_000_000 + index })
    return performance.now() - began
  }
  const count = 4_000
  const passes = Array.from({ length: 6 }, () => Array.from({ length: count }, (_, index) => decide(index)))
  const ascending = (times: number[]) => times.sort((one, other) => one - other)
  // The first pass warms up. A busy machine takes the processor away in the middle of a decision, but seldom in every pass.
  const best = ascending(
    Array.from({ length: count }, (_, index) => Math.min(...passes.slice(1).map((pass) => pass[index]!))),
  )
  const all = ascending(passes.slice(1).flat())
  const stored = Math.round(JSON.stringify(memory.stored()).length / 1024)
  return [
    {
      name: 'a decision, p99',
      value: quantile(best, 0.99),
      unit: 'ms',
      max: 0.2,
      sides: [
        { name: 'best of 5 passes', p50Ms: quantile(best, 0.5), p99Ms: quantile(best, 0.99) },
        { name: 'all', p50Ms: quantile(all, 0.5), p99Ms: quantile(all, 0.99) },
      ],
      notes: [`the session remembers ${stored} KiB`],
      faults: [],
    },
  ]
}
