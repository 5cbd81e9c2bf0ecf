import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'rolldown/utils'

// What the rules of the house look at: the imports and the code of each file, read by the parser of the bundler.

export const root = fileURLToPath(new URL('..', import.meta.url))

interface Import {
  line: number
  /** A path from the root of the repository, or a bare name such as `kysely`. */
  target: string
  /** Gone at run time. */
  onlyTypes: boolean
}

export interface Source {
  /** From the root of the repository. */
  path: string
  text: string
  /** Lines of code: comments are blank. */
  lines: string[]
  imports: Import[]
  /** A test, or what only tests of a package use. */
  isTest: boolean
}

const blank = (text: string): string => text.replaceAll(/[^\n]/g, ' ')

export function sourceOf(path: string, text: string): Source {
  const { module, comments } = parseSync(path, text)
  let code = text
  for (const { start, end } of comments) code = code.slice(0, start) + blank(code.slice(start, end)) + code.slice(end)
  const statements = [
    ...module.staticImports,
    ...module.staticExports.flatMap(({ start, entries }) => {
      const moduleRequest = entries.find((entry) => entry.moduleRequest)?.moduleRequest
      return moduleRequest ? [{ start, entries, moduleRequest }] : []
    }),
  ].map(({ start, entries, moduleRequest }) => ({
    start,
    name: moduleRequest.value,
    onlyTypes: entries.length > 0 && entries.every(({ isType }) => isType),
  }))
  // Also `typeof import('…')`.
  const calls = [...code.matchAll(/\bimport\('([^']+)'\)/g)].map(({ 1: name = '', index }) => ({
    start: index,
    name,
    onlyTypes: false,
  }))
  return {
    path,
    text,
    lines: code.split('\n'),
    imports: [...statements, ...calls].map(({ start, name, onlyTypes }) => ({
      line: code.slice(0, start).split('\n').length,
      target: name.startsWith('.') ? join(dirname(path), name) : name,
      onlyTypes,
    })),
    isTest: /\.test\.ts$|\/src\/testing\//.test(path),
  }
}

/** All sources of the repository but tools/tidy.test.ts, whose examples are violations. */
export const readSources = (): Source[] =>
  globSync(['*.ts', '{packages,bench,e2e,docs,test-servers,tools}/**/*.{ts,tsx,js}'], {
    cwd: root,
    exclude: ['**/node_modules', '**/dist', 'tools/tidy.test.ts'],
  })
    .sort()
    .map((path) => sourceOf(path, readFileSync(join(root, path), 'utf8')))
