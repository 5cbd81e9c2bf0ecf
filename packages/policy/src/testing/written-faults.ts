const rule = (more: object) => ({ rules: [{ title: 'x', decision: 'deny', ...more }] })
/** Documents that cannot be read, and the sentence that says why. */
export const writtenFaults: readonly [name: string, document: object, fault: string][] = [
  [
    'an unknown field',
    { quota: 1 },
    'quota is unknown; known are title, description, mode, for, enforce_for, default, rules, flow, labels.',
  ],
  ['no title', { title: '' }, 'title must be a text of 1 to 500 characters.'],
  ['a flow', { flow: 'high' }, 'flow must be off, default or strict.'],
  ['rules', { rules: {} }, 'rules must be a list of at most 200 rules.'],
  ['a rule', { rules: [7] }, 'rules[0] must be a map of names and values.'],
  [
    'two titles',
    { rules: [1, 2].map(() => ({ title: 'a', decision: 'deny' })) },
    'rules[1].title is the title of another rule.',
  ],
  ['a decision', rule({ decision: 'block' }), 'rules[0].decision must be allow, ask or deny.'],
  [
    'a tool',
    rule({ match: { tool: 'Bash(' } }),
    'rules[0].match.tool[0] must be a name such as send_email, or Bash(rm -rf *).',
  ],
  ['no tools', rule({ match: { tool: [] } }), 'rules[0].match.tool must have 1 to 200 entries.'],
  [
    'a modifier',
    rule({ when: { 'a|regex': 'x' } }),
    'rules[0].when.a|regex must be an argument and one of glob, re, in, host, path, command, lt, lte, gt, gte, or not_ before one of them.',
  ],
  [
    'no conditions',
    rule({ when: {} }),
    'rules[0].when must be a map of 1 to 20 conditions, such as recipients|not_host.',
  ],
  ['a number', rule({ when: { 'a|gt': '5' } }), 'rules[0].when.a|gt must be a number.'],
  ['a value', rule({ when: { a: [null] } }), 'rules[0].when.a must be texts, numbers or truth values.'],
  ['a pattern', rule({ when: { 'a|re': '(a' } }), 'rules[0].when.a|re has a pattern that has a ( without a ).'],
  [
    'a costly pattern',
    rule({ when: { 'a|re': '((a{9}){9}){9}' } }),
    'rules[0].when.a|re has a pattern that would cost too much: it has more than 500 steps, repetitions written out.',
  ],
  [
    'calls',
    rule({ limit: { calls: 1.5, within: '1m' } }),
    'rules[0].limit.calls must be a whole number from 1 to 1000.',
  ],
  [
    'a window',
    rule({ limit: { calls: 1, within: '2d' } }),
    'rules[0].limit.within must be a time such as 30s, 15m or 1h, at least 1s and at most 1d.',
  ],
  [
    'a total of nothing',
    rule({ limit: { total: 1, within: '1d' } }),
    'rules[0].limit.of must be a text of 1 to 500 characters.',
  ],
  ['hours', rule({ hours: '24:00-06:00' }), 'rules[0].hours must be times of the day in UTC such as 22:00-06:00.'],
  [
    'an end',
    rule({ expires_at: '2026-02-30' }),
    'rules[0].expires_at must be a date or a time in UTC such as 2026-12-31T18:00Z.',
  ],
  ['a scope', rule({ match: { scope: 'child' } }), 'rules[0].match.scope must be main or subagent.'],
  [
    'a scope in a list',
    rule({ match: { scope: ['main', 'child'] } }),
    'rules[0].match.scope[1] must be main or subagent.',
  ],
  ['approvals', rule({ decision: 'ask', approvals: 3 }), 'rules[0].approvals must be 1 or 2.'],
  [
    'a wait',
    rule({ decision: 'ask', wait: '5s' }),
    'rules[0].wait must be a time such as 30s, 15m or 1h, at least 10s and at most 1d.',
  ],
  ['a wait of a denial', rule({ wait: '30s' }), 'rules[0].wait is only for rules whose decision is ask.'],
  [
    'a label',
    { labels: { x: { is: ['reads'] } } },
    'labels.x.is[0] must be untrusted, private, sends, changes, irreversible, directory, inside or fetches.',
  ],
  ['enforce_for', { enforce_for: { tag: 'x' } }, 'enforce_for.tag is unknown; known are agents, tags.'],
]
