import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pythonClient, referencePages } from './reference.ts'
import { starterDocumentsText } from './starter-documents.ts'

const pages = await referencePages()

test.each(Object.entries(pages))('docs/reference/%s says what the program does', (name, text) => {
  const file = new URL(`reference/${name}`, import.meta.url)
  const stored = existsSync(file) ? readFileSync(file, 'utf8') : ''
  expect(stored, `docs/reference/${name} is stale: run "npm run docs" and commit the result`).toBe(text)
})

test('the documents of the starter rules are those of their texts', () => {
  const file = new URL('../packages/server/src/features/rules/starter/documents.json', import.meta.url)
  const stored = JSON.parse(readFileSync(file, 'utf8'))
  expect(stored, 'run "npm run docs" and commit the result').toEqual(JSON.parse(starterDocumentsText()))
})

test('the Python client has the table of tool calls that the SDK has', () => {
  const stored = readFileSync(new URL('../clients/python/wardline.py', import.meta.url), 'utf8')
  expect(stored, 'clients/python/wardline.py is stale: run "npm run docs" and commit the result').toBe(
    pythonClient(stored),
  )
  expect(stored).toContain("'execute': 'exec execute run eval")
})
