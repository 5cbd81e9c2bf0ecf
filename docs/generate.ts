import { mkdirSync, writeFileSync } from 'node:fs'
import { referencePages } from './reference.ts'

const folder = new URL('reference/', import.meta.url)
mkdirSync(folder, { recursive: true })
for (const [name, text] of Object.entries(await referencePages())) writeFileSync(new URL(name, folder), text)
