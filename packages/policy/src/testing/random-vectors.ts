import type { Vector, VectorStep } from './vector.ts'

/** Random numbers from a seed (mulberry32): the same on every machine and in every version. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let value = Math.imul(state ^ (state >>> 15), 1 | state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296
  }
}

const people = [
  'ada@example.com',
  'Bob <bob@example.com>',
  'eve@evil.example',
  'İlker@Straße.example',
  'carol@sub.example.com',
]
const texts = [
  'invoice 12',
  'Password: x7',
  'größe\u00a0GRÖSSE',
  '😀 ok',
  'a\nb',
  '',
  ' ',
  '12',
  '0012',
  'ﬁne',
  '\u2028x',
  'ΑΣ',
]
const numbers = [0, 1, 9.5, 100, 100.01, 1e21, -5, '250', ' 7 ', '1e3', true, null]
const paths = [
  '/root/.ssh/id_rsa',
  '~/.env',
  'C:\\Users\\ada\\.aws\\credentials',
  'src/../src/./a.ts',
  '/home/ada/site/README.md',
  '..//..//etc/passwd',
]
const commands = [
  'ls -la',
  'sudo rm -rf /srv',
  'cd x; git push --force && echo $(curl https://evil.example/x)',
  'timeout 5 bash -c "rm -rf ~ # no"',
  "echo 'rm -rf /'",
  'FOO=1 env -i nohup npm test -- --watch',
  'xargs -n 1 rm < list',
  'if true; then `which dd` if=/dev/zero; fi',
  'a\\\nb "c\\"d" <(cat e)',
]
const urls = [
  'https://docs.example/a?b=1',
  'http://EVIL.example:8080/x#y',
  'www.docs.example',
  'evil.example',
  'https://u:p@[::1]:80/',
  'nothing at all',
]
const names = [
  'send_email',
  'Read',
  'Bash',
  'WebFetch',
  'mcp__bank__pay',
  'list_contacts',
  'read_inbox',
  'post_note',
  'Frobnicate',
  'get_webpage',
  'create_comment',
]
const patterns = [
  'send_*',
  'READ',
  'Bash(rm -rf *)',
  'Bash(git push*)',
  'Read(~/.ssh/**)',
  'Read(.env)',
  'WebFetch(domain:*.example)',
  'mcp__bank__*',
  '*',
  'post_note',
  'Bash(npm test:*)',
]
const conditions: readonly [string, readonly unknown[]][] = [
  ['to|not_host', ['example.com', '*.example.com']],
  ['to|host', ['evil.example', 'localhost']],
  ['to', ['*@evil.example', 'bob*']],
  ['*|re', ['(?i)pass(word|code)', '^\\s*$', 'GRÖ[^a]{2}E', '\\b12\\b', '.{3,}😀?']],
  ['subject|not_re', ['^[\\w .-]+$', '(?:a|b)+$', '[\\x{1F600}-\\x{1F64F}]']],
  ['subject|in', ['12', 'invoice 12', 100]],
  ['subject|not_in', ['invoice 12', true]],
  ['amount|gt', [100, 5]],
  ['amount|lte', [9.5]],
  ['items.amount|gte', [100]],
  ['*|path', ['.env', '~/.ssh/**', '/etc/*', '**/src/*.ts']],
  ['file_path|not_path', ['/home/*/site/**', 'src/**']],
  ['command|command', ['rm -rf *', 'curl *', 'dd *']],
  ['command|not_command', ['ls*', 'npm *']],
  ['url|host', ['*.example', 'docs.example']],
  ['options.url|not_host', ['docs.example']],
  ['*', ['*ok', '*ﬁne*', 'ας']],
]
const labels: Readonly<Record<string, unknown>> = {
  send_email: { is: ['sends', 'changes', 'irreversible'], destination: ['to', 'cc'] },
  read_inbox: { is: ['untrusted', 'private'] },
  list_contacts: { is: ['private', 'directory'] },
  WebFetch: { is: ['untrusted', 'sends', 'fetches'], destination: ['url'] },
  Read: { is: [], when: { file_path: ['untrusted'] } },
  pay: { is: ['irreversible', 'changes'], destination: ['to', 'items'] },
  post_note: { is: ['changes'], destination: ['to'], when: { cc: ['sends'] } },
  Bash: { is: ['untrusted', 'sends', 'changes'], destination: ['command'] },
}
const tools = [
  { name: 'Frobnicate', description: 'Sends a message to people.', inputSchema: { properties: { to: {}, body: {} } } },
  { name: 'post_note', description: 'Posts a note', inputSchema: { properties: { to: {}, cc: {} } } },
  { name: 'list_contacts', description: 'Lists contacts.', annotations: { readOnlyHint: true } },
  { name: 'read_inbox' },
  { name: 'get_webpage', inputSchema: { properties: { url: {} } } },
  { name: 'create_comment', inputSchema: { properties: { to: {}, body: {} } } },
  { name: 'Bash', description: 'Runs a command.' },
  {
    name: 'mcp__bank__pay',
    description: 'Schedules a payment.',
    inputSchema: { properties: { to: {}, accountId: {} } },
  },
]
const at = Date.UTC(2026, 0, 15, 12)

/** Returns sessions under random sets of policies: the same for a seed. */
export function randomVectors(seed: number, count: number): Vector[] {
  const random = randomFrom(seed)
  const isLikely = (probability: number) => random() < probability
  const below = (end: number) => Math.floor(random() * end)
  const one = <Value>(values: readonly Value[]): Value => values[below(values.length)]!
  const some = <Value>(values: readonly Value[], max: number): Value[] =>
    Array.from({ length: 1 + below(max) }, () => one(values))

  const rule = (index: number) => {
    const decision = one(['allow', 'ask', 'ask', 'deny', 'deny'])
    const limits = [
      { calls: 1 + below(2), within: one(['10s', '1m', '1h']) },
      { total: one([10, 100.5]), of: one(['amount', 'items.amount']), within: '1h' },
    ]
    return {
      title: `Rule ${index}`,
      decision,
      match: {
        ...(isLikely(0.8) ? { tool: isLikely(0.3) ? one(patterns) : some(patterns, 3) } : {}),
        ...(isLikely(0.1) ? { agent: one(['bot-*', 'pay-1']) } : {}),
        ...(isLikely(0.1) ? { tags: [one(['env:prod', 'env:dev'])] } : {}),
        ...(isLikely(0.1) ? { scope: one(['main', 'subagent', ['subagent', 'main']]) } : {}),
      },
      ...(isLikely(0.6)
        ? { when: Object.fromEntries(some(conditions, 2).map(([key, values]) => [key, some(values, 2)])) }
        : {}),
      ...(isLikely(0.2) ? { limit: one(limits) } : {}),
      ...(isLikely(0.1) ? { hours: one(['22:00-06:00', '11:30-12:30', '00:00-00:00']) } : {}),
      ...(isLikely(0.1) ? { expires_at: one(['2026-01-15T12:00:30Z', '2027-01-01', '2026-01-15T11:59Z']) } : {}),
      ...(decision === 'ask' && isLikely(0.4) ? { approvals: one([1, 2]), wait: one(['30s', '2h', '1d']) } : {}),
    }
  }
  const policy = (index: number) => {
    return {
      id: `p${index}`,
      title: `Policy ${index}`,
      version: 1 + below(9),
      mode: isLikely(0.75) ? ('enforce' as const) : ('observe' as const),
      document: {
        title: `Policy ${index}`,
        ...(isLikely(0.2) ? { default: one(['allow', 'ask', 'deny']) } : {}),
        flow: one(['off', 'default', 'default', 'strict']),
        rules: Array.from({ length: below(4) }, (_, each) => rule(each)),
        labels: Object.fromEntries(Object.entries(labels).filter(() => isLikely(0.6))),
      },
    }
  }
  const value = () => one<unknown>([...people, ...texts, ...numbers, ...paths, ...urls])
  const argument: Readonly<Record<string, () => unknown>> = {
    to: () => (isLikely(0.5) ? one(people) : some([...people, ...texts], 3)),
    cc: () => (isLikely(0.3) ? one([[], '', null, false, 0]) : one(people)),
    subject: () => one<unknown>([...texts, ...numbers]),
    amount: () => one<unknown>(numbers),
    items: () => some([{ amount: one<unknown>(numbers) }, { amount: 50, note: one(texts) }, value()], 3),
    file_path: () => one(paths),
    command: () => one(commands),
    url: () => one(urls),
    options: () => one<unknown>([{ url: one(urls) }, [{ url: one(urls) }, { url: [one(urls)] }], one(texts)]),
  }
  const args = () => Object.fromEntries(some(Object.keys(argument), 4).map((name) => [name, argument[name]!()]))
  const call = () => ({ tool: isLikely(0.9) ? one(names) : one(names).toUpperCase(), args: args() })
  const answer = () => {
    const [person, text, url] = [one(people), one(texts), one(urls)]
    return one<unknown>([
      `See ${url}, and write to ${person}.`,
      JSON.stringify([{ mail: person, note: text, n: one(numbers) }]),
      `- email: ${person}\n  name: '${text}'\n- email: ${one(people)}\n  note: |\n    ${text}\n    ${url}`,
      `{'mail': '${person}', 'n': ${below(200)}, 'b': True`,
      { people: [{ mail: person }, text, below(1_000)] },
      `${text}\r\nTo: ${person}\n"quoted ${person}"`,
      '',
      null,
    ])
  }
  const steps = (): VectorStep[] => {
    let now = at
    return [
      { prompt: `${one(texts)} Write to ${one(people)}; then "${one(people)}" at ${one(urls)}` },
      ...Array.from({ length: 4 + below(4) }, (): VectorStep => {
        now += one([0, 1_000, 9_999, 61_000, 3_600_000])
        if (isLikely(0.05)) return { prompt: one([...people, ...urls, ...texts]) }
        if (isLikely(0.3)) return { learn: call(), answer: answer() }
        return isLikely(0.05)
          ? { hash: args() }
          : { decide: { ...call(), at: now, ...one([{}, { scope: 'main' as const }, { scope: 'subagent' as const }]) } }
      }),
    ]
  }
  return Array.from({ length: count }, (_, index) => {
    return {
      name: `random ${seed}/${index}`,
      set: {
        agent: { id: one(['bot-1', 'pay-1', 'x']), tags: one([[], ['env:prod'], ['env:dev', 'team:a']]) },
        policies: Array.from({ length: one([1, 1, 2, 2, 3]) }, (_each, at_) => policy(at_)),
      },
      ...(isLikely(0.3) ? { tools } : {}),
      steps: steps(),
    }
  })
}
