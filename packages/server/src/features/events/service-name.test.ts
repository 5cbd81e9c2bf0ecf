import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isServiceName } from './service-name.ts'

const taken = [
  'wardline',
  'Wardline',
  'WARDLINE',
  ' wardline',
  'wardline\n',
  'ward line',
  '[wardline]',
  'ward-line.',
  'w.a.r.d.l.i.n.e',
  'ward\u200bline',
  '\u202ewardline',
  'wárdlîne',
  'wa\u0308rdline',
  'ｗａｒｄｌｉｎｅ',
  '𝐰𝐚𝐫𝐝𝐥𝐢𝐧𝐞',
  '\u00a0wardline\ufeff',
  'wardline\u3164',
  'ward\u115f\u1160line',
  '\uffa0wardline',
]

it.each(taken)('recognises %j as the name of the service', (source) => {
  expect(isServiceName(source)).toBe(true)
})

it.each(['wardline-agent', 'wardline2', 'my wardline', 'wardlin', 'agent', '', 'w', '…', 'vvardline', 'cli/wardline'])(
  'allows %j as a source of callers',
  (source) => {
    expect(isServiceName(source)).toBe(false)
  },
)

it('recognises the name with anything but letters and digits around and between its letters', () => {
  const mark = fc.stringMatching(/^[^\p{L}\p{N}\ud800-\udfff]{0,4}$/u)
  fc.assert(
    fc.property(fc.array(mark, { minLength: 9, maxLength: 9 }), fc.boolean(), (marks, isLoud) => {
      const name = isLoud ? 'WARDLINE' : 'wardline'
      expect(isServiceName(marks.map((text, index) => text + (name[index] ?? '')).join(''))).toBe(true)
    }),
  )
})
