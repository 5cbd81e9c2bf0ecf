import { storedPolicyLimits } from '@wardline/contract'
import { isLabelFile, readLabels } from '@wardline/policy'
import { fileProblem } from '../rules/bounded-file.ts'
import { readText } from '../rules/language/document.ts'
import { type Path, type RuleFault, shown } from '../rules/language/fault.ts'
import { pathOf } from './policy-text.ts'

/** Labels files of one policy. */
const maxFiles = 20
const maxFaults = 100

/** Whether a file in a folder of policies has labels, by its name. */
export const isLabelsName = (name: string): boolean => /\.labels\.(?:ya?ml|json)$/.test(name)

/**
 * Returns the text of a policy with the maps of its labels files in the place of their names. A map stands on one line, so
 * that faults have the lines of the file. `read` throws AppError, or an error of the file system. A text that cannot be read
 * is returned as it is.
 */
export async function withLabelFiles(
  text: string,
  read: (name: string) => Promise<string>,
): Promise<{ text: string; faults: RuleFault[] }> {
  const { documents } = readText(text, 'policy')
  const [source] = documents
  const labels = (source?.value as { labels?: unknown } | null | undefined)?.labels
  const entries: [unknown, Path][] = Array.isArray(labels)
    ? labels.map((one, at) => [one, ['labels', at]])
    : [[labels, ['labels']]]
  const named = entries.flatMap(([name, path]) => (isLabelFile(name) ? [{ name, path }] : []))
  if (!source || named.length === 0) return { text, faults: [] }
  if (named.length > maxFiles) {
    return { text, faults: [source.fault(['labels'], `labels names more than ${maxFiles} files.`)] }
  }
  const faults: RuleFault[] = []
  const values: { path: Path; by: string }[] = []
  for (const { name, path } of named) {
    try {
      const found = readMap(await read(name))
      values.push({ path, by: found.map })
      faults.push(...found.faults.map((fault) => ({ ...fault, file: name })))
    } catch (fault) {
      faults.push(source.fault(path, `labels names ${shown(name)}. ${fileProblem(fault)}`))
    }
  }
  if (faults.length > 0) return { text, faults: faults.slice(0, maxFaults) }
  const whole = source.replaced(values)
  const bytes = Buffer.byteLength(whole)
  if (bytes <= storedPolicyLimits.textBytes) return { text: whole, faults }
  const sentence = `labels makes the policy ${bytes} bytes long with its files; the maximum is ${storedPolicyLimits.textBytes}.`
  return { text, faults: [source.fault(['labels'], sentence)] }
}

/** Reads a labels file. The map is JSON, which is YAML as well, since the policy may be either. */
function readMap(text: string): { map: string; faults: RuleFault[] } {
  const { documents, faults } = readText(text, 'labels')
  const [source, second] = documents
  if (second) faults.push(second.fault([], 'The text has a second document: labels are one document.'))
  if (faults.length > 0 || !source) return { map: '', faults }
  const { value } = source
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { map: '', faults: [source.fault([], 'A labels file must be a map of tools.')] }
  }
  return {
    map: JSON.stringify(value),
    faults: readLabels(value).faults.map(({ path, message }) =>
      source.fault(pathOf(value, path), `${path === '' ? 'The document' : path} ${message}`),
    ),
  }
}
