import { writeFileSync } from 'node:fs'
import { measureGuards } from '../bench/parts/guards.ts'

/** Measures the flow of policies on a folder of recorded tasks, and stores the figures for the page about them. */
const figures = await measureGuards(process.argv[2])
for (const { name, faults } of figures) if (faults.length > 0) throw new Error(`${name}: ${faults.join(' ')}`)
const stored = figures.map(({ name, value, unit, notes }) => ({ name, value: Number(value.toFixed(2)), unit, notes }))
writeFileSync(new URL('guard-figures.json', import.meta.url), `${JSON.stringify(stored, null, 2)}\n`)
