/** A folder of tests; `except` are those that take minutes, measure time, or run programs of the machine. */
interface Tests {
  folder: string
  except?: RegExp
}

const features = 'packages/server/src/features'
const http = 'packages/server/src/http'
const sourcesOf = (folder: string) => [`${folder}/**/*.ts`, `!${folder}/**/*.test.ts`, `!${folder}/testing/**`]

/** What `npm run test:mutation` mutates, and the tests that should notice. */
export const modules: Record<string, { mutate: string[]; tests: Tests[] }> = {
  policy: {
    mutate: sourcesOf('packages/policy/src'),
    tests: [{ folder: 'packages/policy/src', except: /^(?:python|work)/ }],
  },
  audit: {
    mutate: sourcesOf(`${features}/audit`),
    tests: [{ folder: `${features}/audit` }],
  },
  control: {
    mutate: [...sourcesOf(`${features}/control`), ...sourcesOf(`${features}/suspensions`)],
    tests: [
      { folder: `${features}/control`, except: /-simulation/ },
      { folder: `${features}/suspensions` },
      // What supervisors and enforcement points prove, and kills of many.
      { folder: `${features}/containments`, except: /-simulation/ },
      { folder: `${features}/enforcement` },
      { folder: `${features}/instances`, except: /^(?!supervisors)/ },
    ],
  },
  auth: {
    mutate: [
      ...['keys', 'people', 'sign-in'].flatMap((feature) => sourcesOf(`${features}/${feature}`)),
      ...['auth', 'actor', 'fresh', 'session-reply', 'supervisor'].map((name) => `${http}/${name}.ts`),
    ],
    tests: [
      { folder: `${features}/keys`, except: /^timing/ },
      { folder: `${features}/people` },
      { folder: `${features}/sign-in` },
      { folder: `${features}/command-logins` },
    ],
  },
}
