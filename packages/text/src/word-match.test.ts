import { expect, test } from 'vitest'
import { askedWords, lettersOf, matchCost, maxQueryWords, textCost, wordsOf } from './word-match.ts'

const cost = (query: string, text: string) => textCost(askedWords(query), text)

/** A query, a text, and whether it is found. */
const table: [string, string, boolean][] = [
  ['billing', 'billing-1', true],
  ['biling', 'billing-1', true],
  ['bililng', 'billing-1', true],
  ['billimg', 'billing-1', true],
  ['billings', 'billing-1', true],
  ['biling', 'building', false],
  ['bilin', 'billing-1', true],
  ['suport', 'support-bot', true],
  ['suport-bot', 'support-bot', true],
  ['bot support', 'support-bot', true],
  ['supprot', 'support-bot', true],
  ['reconcilation', 'reconciliation-7', true],
  ['reconcilatoin', 'reconciliation-7', true],
  ['reconclatoin', 'reconciliation-7', false],
  // Seven letters have one edit, eight have two.
  ['paymnet', 'payment', true],
  ['pamnet', 'payment', false],
  ['paymenst', 'payments', true],
  ['paymntes', 'payments', true],
  // Short words and numbers have none.
  ['bot', 'bat', false],
  ['10001', 'agent-10002', false],
  ['agent-10001', 'agent-10001', true],
  ['agent-10001', 'agent-10002', false],
  // Only the first letters of a word were typed, and one is wrong.
  ['suppr', 'support-bot', true],
  ['port', 'support-bot', true],
  ['BILLING', 'billing-1', true],
  ['ｂｉｌｌｉｎｇ', 'billing-1', true],
  ['оплата', 'агент оплата', true],
  ['оплатта', 'агент оплата', true],
  ['billing refund', 'billing-1', false],
  ['', 'billing-1', false],
  ['<>', 'billing-1', false],
  ['%', 'billing-1', false],
]

test.each(table)('%j in %j: %s', (query, text, isFound) => {
  expect(cost(query, text) !== undefined).toBe(isFound)
})

test('the same word is nearer than its beginning, its inside, a typo, and a typo in its beginning', () => {
  const costs = ['billing', 'billings', 'prebilling', 'biling', 'bilings'].map((text) => cost('billing', text))
  expect(costs).toEqual([0, 1, 2, 3, 4])
  expect(cost('biling', 'billings-of-march')).toBe(4)
})

// The letters decide without a comparison: if they said no to a word that matches, it could not be found.
test('no match is lost by comparing letters first', () => {
  const letters = 'abc1'
  const words = [...'x'.repeat(400)].map((_, index) =>
    [...'xxxxxx'].map((_, place) => letters[(index * 7 + place * (index % 5) + (index >> place)) % 4]).join(''),
  )
  for (const word of words) {
    const [asked] = askedWords(word)
    for (const known of words.slice(0, 50)) {
      const full = matchCost(asked!, known, -1)
      expect(matchCost(asked!, known, lettersOf(known)), `${word} in ${known}`).toBe(full)
    }
  }
})

test('a hostile text costs little: few words, and of each only its first letters', () => {
  expect(askedWords([...'x'.repeat(1_000)].map((_, index) => `word${index}`).join(' '))).toHaveLength(maxQueryWords)
  expect(wordsOf('x'.repeat(100_000))).toEqual(['x'.repeat(40)])
  expect(wordsOf('a b c d', 2)).toEqual(['a', 'b'])
})
