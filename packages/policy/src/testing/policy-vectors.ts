import { randomVectors } from './random-vectors.ts'
import { runVector } from './vector.ts'
import { writtenVectors } from './written-vectors.ts'

/** Returns the vectors for clients in any language, a line of JSON for each: those written by hand, then generated ones. */
export function policyVectors(): string {
  const vectors = [...writtenVectors.map(({ expected: _, ...vector }) => vector), ...randomVectors(2026, 260)]
  return vectors
    .map((vector) => `${JSON.stringify({ ...vector, ...runVector(JSON.parse(JSON.stringify(vector))) })}\n`)
    .join('')
}
