import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const below = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
const documents = [
  ...readdirSync(root),
  ...['docs', 'examples', 'deploy', 'clients', '.github'].filter((name) => existsSync(join(root, name))).flatMap(below),
  ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
].filter((path) => path.endsWith('.md') && !path.includes('node_modules') && existsSync(join(root, path)))

const withoutCode = (text: string): string =>
  text.replace(/^ *(```|~~~)[\s\S]*?^ *\1/gm, '').replace(/`[^`\n]*`/g, 'code')

/** The anchors that GitHub gives to headings: lower case, words joined by dashes, repeated ones numbered. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>([...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id!))
  const counts = new Map<string, number>()
  for (const [, heading] of text.replace(/^ *(```|~~~)[\s\S]*?^ *\1/gm, '').matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const plain = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = plain.replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '').replace(/\s/g, '-')
    const count = counts.get(slug) ?? 0
    counts.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  return anchors
}

const read = (path: string) => readFileSync(path, 'utf8')

test.each(documents)('every link of %s leads to a file and a heading that exist', (path) => {
  const links = [...withoutCode(read(join(root, path))).matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g)]
  const dead = links.flatMap(([, link = '']) => {
    if (/^[a-z]+:/i.test(link)) return []
    const [file = '', anchor] = link.split('#')
    const target = file === '' ? join(root, path) : resolve(root, dirname(path), decodeURIComponent(file))
    if (!existsSync(target)) return [`${link}: no file ${relative(root, target)}`]
    if (anchor === undefined || !target.endsWith('.md')) return []
    return anchorsOf(read(target)).has(anchor) ? [] : [`${link}: no such heading`]
  })
  expect(dead).toEqual([])
})

test('the README leads to the guide of containment', () => {
  expect(read(join(root, 'README.md'))).toContain('](docs/guide/containment.md')
})
