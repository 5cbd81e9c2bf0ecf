import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

// `npm run example -- <name>`: runs an example on the Node of this repository; without a name it lists them.

const examples = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => {
    const files = ['agent.ts', 'agent.py', 'receiver.ts'].map((file) => join(import.meta.dirname, name, file))
    return { name, file: files.find(existsSync) ?? '' }
  })
  // Some folders hold what other commands read.
  .filter(({ file }) => file !== '')

/** Returns the first sentence of a program, which describes it. */
const about = (file: string) => /^(?:\/\/ |""")([^.:;]+)/.exec(readFileSync(file, 'utf8'))?.[1] ?? ''

function list(): void {
  const width = Math.max(...examples.map(({ name }) => name.length))
  for (const { name, file } of examples) console.log(`${name.padEnd(width)}  ${about(file)}`)
  console.log('\nRun one: npm run example -- <name>. Its first lines say what it needs.')
}

const name = process.argv[2]
const chosen = examples.find((example) => example.name === name)
if (name === undefined) list()
else if (chosen === undefined) {
  console.error(`There is no example ${JSON.stringify(name)}; npm run example lists them.`)
  process.exitCode = 64
} else if (chosen.file.endsWith('.py')) {
  const python = spawn('python3', [chosen.file], { stdio: 'inherit' })
  python.once('error', ({ message }) => {
    console.error(`python3 does not start (${message}): install Python 3.9 or newer`)
    process.exitCode = 1
  })
  python.once('close', (code) => {
    process.exitCode = code ?? 1
  })
} else await import(chosen.file)
