import { describe, expect, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { decoyPathKeys, type PathForms, pathForms } from './path-forms.ts'
import { globCovers, queryGlobs } from './query-globs.ts'

const keyNames = (decoy: string) => decoyPathKeys(decoy).map((key) => key.split('/'))
const formsOf = (input: string, context = {}) =>
  atOnce(pathForms(input, context, new WorkBudget(Number.MAX_SAFE_INTEGER)))

const globsOf = (forms: PathForms) => atOnce(queryGlobs(forms, new WorkBudget(Number.MAX_SAFE_INTEGER)))

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

  test.each([
    ['cat cred*', '~/.aws/credentials', '/home/eve/.aws'],
    ['cat ~/.aws/*', '~/.aws/credentials', '/home/eve/.aws'],
    ['cd ~/.aws && cat *', '~/.aws/credentials', '/home/eve/work'],
    ['cd .aws && cat *', '~/.aws/credentials', '/home/eve'],
    ['cat .en*', '/home/bot/work/.env', '/home/bot/work'],
    ['cat .e*', '/home/bot/work/.env', '/home/bot/work'],
    ['cat .e??', '/home/bot/work/.env', '/home/bot/work'],
    ['cat /home/bot/work/.e??', '/home/bot/work/.env', '/home/bot/work'],
    ['cat ./.[e]nv', '/home/bot/work/.env', '/home/bot/work'],
    ['cat sec*/c*', '/home/bot/work/secret/creds.txt', '/home/bot/work'],
    ['cat secret/*', '/home/bot/work/secret/creds.txt', '/home/bot/work'],
    ['cat **/creds.txt', '/home/bot/work/secret/creds.txt', '/home/bot/work'],
    ['cat */creds.txt', '/home/bot/work/secret/creds.txt', '/home/bot/work'],
    ['cd secret; cat cre*', '/home/bot/work/secret/creds.txt', '/home/bot/work'],
    ['cat ../secret/c*', '/home/bot/work/secret/creds.txt', '/home/bot/work/src'],
  ])('%s covers %s in %s', (input, decoy, cwd) => {
    expect(covers(input, decoy, cwd)).toBe(true)
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

  // The letters of the working folder tell nothing about what the agent looks for.
  test.each([
    ['ls *', 'creds.txt'],
    ['ls ./*', 'creds.txt'],
    ['ls $PWD/*', 'creds.txt'],
    ['ls /home/bot/work/*', 'creds.txt'],
    ['expr 2 \\* 3', 'creds.txt'],
    ['cd src && expr 2 \\* 3', 'creds.txt'],
    ['cd src && expr 2 \\* 3', 'src/creds.txt'],
    ['cd /home/bot/work/src && ls *', 'src/creds.txt'],
    ['python3 -c "print(2 ** 10)"', 'secret/creds.txt'],
    ['ls **/*', 'secret/creds.txt'],
    ['ls */', 'secret/creds.txt'],
    ['ls *.txt', 'creds.txt'],
    ['prettier **/*.txt', 'secret/creds.txt'],
    ['ls src/*', 'src/creds.txt'],
    ['wc -l ../*', 'creds.txt', '/home/bot/work/src'],
  ])('%s leaves %s alone in the working folder', (input, decoy, cwd = '/home/bot/work') => {
    expect(covers(input, `/home/bot/work/${decoy}`, cwd)).toBe(false)
  })

  // A shell completes no hidden name from a wildcard.
  test.each([
    ['cat /home/bot/work/*', '/home/bot/work/.env'],
    ['cat /home/bot/work/?env', '/home/bot/work/.env'],
    ['cat /home/bot/work/[.]env', '/home/bot/work/.env'],
    ['cat /home/bot/work/**', '/home/bot/work/.env'],
    ['cat ~/*/credentials', '~/.aws/credentials'],
  ])('%s leaves the hidden %s alone', (input, decoy) => {
    expect(covers(input, decoy)).toBe(false)
  })
})

test('a check uses at most 16 globs, the most specific first', () => {
  const many = Array.from({ length: 100 }, (_, index) => `/srv/app/x${index}*`).join(' ')
  const globs = globsOf(formsOf(`${many} /home/eve/.aws/credentials_backup*`))
  expect(globs).toHaveLength(16)
  expect(globs[0]).toContain('credentials_backup*')
})
