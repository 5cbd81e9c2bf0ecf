import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { policyVectors } from '../packages/policy/src/testing/policy-vectors.ts'
import { pythonClient, referencePages } from './reference.ts'
import { starterDocumentsText } from './starter-documents.ts'

const starterDocumentsFile = new URL('../packages/server/src/features/rules/starter/documents.json', import.meta.url)
const folder = new URL('reference/', import.meta.url)
mkdirSync(folder, { recursive: true })
// In a separate process, whose random numbers are fixed. The page about the format reads the vectors.
const vectors = [new URL('incident-vectors.ts', import.meta.url), new URL('incident-bundle', folder)]
execFileSync(process.execPath, ['--conditions=wardline-source', ...vectors.map((url) => fileURLToPath(url))])
for (const [name, text] of Object.entries(await referencePages())) writeFileSync(new URL(name, folder), text)

writeFileSync(starterDocumentsFile, starterDocumentsText())

const client = new URL('../clients/python/wardline.py', import.meta.url)
writeFileSync(client, pythonClient(readFileSync(client, 'utf8')))

writeFileSync(new URL('../packages/contract/vectors/policies.ndjson', import.meta.url), policyVectors())
