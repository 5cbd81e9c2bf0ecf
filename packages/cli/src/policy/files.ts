import { readFileSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { type ListedTool, type Policy, type PolicyFault, readLabels } from '@wardline/policy'
import { loadPolicyFiles } from '@wardline/server'
import { counted, sanitize } from '@wardline/text'
import { Failure } from '../exit.ts'

export interface PolicyFiles {
  policy: string
  tools?: string
  labels?: string
}

interface Fault {
  /** A labels file, as the policy names it. */
  file?: string
  line: number
  column: number
  sentence: string
}

export const notReadable = (file: string, why: string): Failure => new Failure(`${file}: ${why}`, 'invalid', 'failed')

export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (fault) {
    throw notReadable(file, `it cannot be read (${(fault as { code?: string }).code ?? 'unknown'}).`)
  }
}

/** Reads a YAML or JSON document: JSON is YAML. */
async function readDocument(file: string): Promise<unknown> {
  const { parse } = await import('yaml')
  const text = readText(file)
  try {
    return parse(text, { maxAliasCount: 0 })
  } catch (fault) {
    throw notReadable(file, (fault as Error).message.split('\n')[0]!)
  }
}

/** Reads what MCP's `tools/list` answers: the list, or the whole result. */
export async function readTools(file: string | undefined): Promise<ListedTool[]> {
  if (file === undefined) return []
  const document = (await readDocument(file)) as { tools?: unknown } | unknown[] | null
  const list = Array.isArray(document) ? document : document?.tools
  if (!Array.isArray(list) || !list.every((tool) => typeof tool?.name === 'string')) {
    throw notReadable(file, 'it must be a list of tools with a name, as tools/list of MCP answers.')
  }
  return list as ListedTool[]
}

/** Policies may come from others, so their texts are sanitized for the terminal. */
export const faultLine = (policy: string, { file, line, column, sentence }: Fault): string =>
  sanitize(
    `${file === undefined ? policy : isAbsolute(file) ? file : join(dirname(policy), file)}:${line}:${column}: ${sentence}`,
  )

function refuse(file: string, lines: readonly string[]): void {
  if (lines.length === 0) return
  for (const line of lines) console.error(line)
  throw notReadable(file, `it has ${counted(lines.length, 'fault')}.`)
}

/** Reads the text of a policy, with the labels files that it names in their place, and what is wrong with these. */
export async function readWithLabels(file: string): Promise<{ text: string; faults: Fault[] }> {
  const { readBounded, withLabelFiles } = await loadPolicyFiles()
  return withLabelFiles(readText(file), (name) => readBounded(resolve(dirname(file), name)))
}

/** Reads the text of a policy that the service can store, which reads no files. */
export async function readWhole(file: string): Promise<string> {
  const { text, faults } = await readWithLabels(file)
  refuse(
    file,
    faults.map((fault) => faultLine(file, fault)),
  )
  return text
}

/** Reads a policy as it is: what its cases say, or rules that never decide, is for `lint`. */
export async function readPolicyFile({ policy: file, labels: labelFile }: PolicyFiles): Promise<Policy> {
  const { lintText } = await loadPolicyFiles()
  const { policy, faults } = lintText(await readWhole(file), [], Date.now())
  if (!policy)
    refuse(
      file,
      faults.map((fault) => faultLine(file, fault)),
    )
  if (labelFile === undefined) return policy!
  const further = readLabels(await readDocument(labelFile))
  refuse(
    labelFile,
    further.faults.map((fault) => labelFault(labelFile, fault)),
  )
  return { ...policy!, labels: new Map([...policy!.labels, ...further.labels]) }
}

const labelFault = (file: string, { path, message }: PolicyFault): string =>
  sanitize(`${file}: ${path === '' ? 'the document' : path} ${message}`)
