import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { referencePages } from './reference.ts'

const pages = await referencePages()

test.each(Object.entries(pages))('docs/reference/%s says what the program does', (name, text) => {
  const file = new URL(`reference/${name}`, import.meta.url)
  const stored = existsSync(file) ? readFileSync(file, 'utf8') : ''
  expect(stored, `docs/reference/${name} is stale: run "npm run docs" and commit the result`).toBe(text)
})
