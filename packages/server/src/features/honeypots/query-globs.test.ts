import { describe, expect, test } from 'vitest'
import { atOnce } from '../../test-work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { decoyPathKeys, pathForms } from './path-forms.ts'
import { globCovers, queryGlobs } from './query-globs.ts'

const keyNames = (decoy: string) => decoyPathKeys(decoy).map((key) => key.split('/'))
const formsOf = (input: string, context = {}) =>
  atOnce(pathForms(input, context, new WorkBudget(Number.MAX_SAFE_INTEGER)))

const globsOf = (forms: string[]) => atOnce(queryGlobs(forms, new WorkBudget(Number.MAX_SAFE_INTEGER)))

function covers(input: string, decoy: string, cwd?: string): boolean {
  const globs = globsOf(formsOf(input, cwd === undefined ? {} : { cwd }))
  return globs.some((glob) => globCovers(glob, keyNames(decoy)))
}

// An agent that avoids the text `~/.aws/credentials` lets its shell complete the name.
describe('a glob covers the decoy that it would open', () => {
  test.each([
    ['~/.aws/cred*', '~/.aws/credentials'],
    ['cat ~/.a*s/c*s', '~/.aws/credentials'],
    ['cat /home/eve/.aws/*', '~/.aws/credentials'],
    ['cat /home/*/.aws/cred*', '~/.aws/credentials'],
    ['cat ~/.aws/credential[s]', '~/.aws/credentials'],
    ['cat ~/.aws/??edentials', '/home/eve/.aws/credentials'],
    ['tar c ~/.ssh/**', '~/.ssh/id_rsa_prod'],
    ['cat /e?c/sh*w.bak', '/etc/shadow.bak'],
    ['cat /srv/app/secr*/prod*', 'secrets/production.env'],
    ['cat .aws/cred*', '~/.aws/credentials'],
    ['cat wallet*', 'wallet.dat'],
    ['cat ~/.a*/c*', '~/.aws/credentials'],
  ])('%s covers %s', (input, decoy) => {
    expect(covers(input, decoy)).toBe(true)
  })

  test('from the working folder of the agent', () => {
    expect(covers('cat cred*', '~/.aws/credentials', '/home/eve/.aws')).toBe(true)
  })
})

describe('an everyday glob covers nothing', () => {
  test.each([
    ['ls *', 'wallet.dat'],
    ['ls ~/*', '~/passwords.kdbx'],
    ['ls -d ~/.a*/*', '~/.aws/credentials'],
    ['ls /etc/*', '/etc/shadow.bak'],
    ['prettier **/*.json', 'wallet.json'],
    ['ls *.json', 'wallet.json'],
    ['cat ~/.aws/conf*', '~/.aws/credentials'],
    ['cat ~/.aws/credentials', '~/.aws/credentials'],
  ])('%s leaves %s alone', (input, decoy) => {
    expect(covers(input, decoy)).toBe(false)
  })
})

test('a check uses at most 16 globs, the most specific first', () => {
  const many = Array.from({ length: 100 }, (_, index) => `/srv/app/x${index}*`).join(' ')
  const globs = globsOf(formsOf(`${many} /home/eve/.aws/credentials_backup*`))
  expect(globs).toHaveLength(16)
  expect(globs[0]).toContain('credentials_backup*')
})
