import type { KnipConfig } from 'knip'

const ofPackage = (...entry: string[]) => ({
  entry: [...entry, 'src/**/*.test.ts'],
  project: ['**/*.{ts,tsx,js}!', '!src/testing/**!'],
  includeEntryExports: true,
})

/** `!` marks what the product consists of, see `knip --production`. */
export default ({ production = false }): KnipConfig => ({
  include: ['files', 'exports', 'types'],
  // What only tests import may be exported where its own file uses it as well.
  ignoreExportsUsedInFile: production,
  paths: { '@wardline/text/*': ['packages/text/src/*.ts'], '@wardline/*': ['packages/*/src/index.ts'] },
  workspaces: {
    '.': {
      entry: [
        'bench/{main,*-server}.ts!',
        'docs/{generate,guard-figures,incident-vectors,record}.ts!',
        'tools/{build,pack,pack-sdk,test-order,test-reporter}.ts!',
        'tools/start.js!',
        'tools/mutation/{main,sample,vitest.config}.ts!',
        'e2e/document-agent.js',
        '{deploy,docs,e2e,test-servers,tools}/**/*.test.ts',
      ],
      project: ['*.ts!', '{bench,docs,tools}/**/*.{ts,js}!', '!tools/sources.ts!', '{e2e,test-servers}/**/*.{ts,js}'],
    },
    'packages/cli': ofPackage(),
    'packages/contract': ofPackage(),
    'packages/dashboard': ofPackage(
      'stories/{build.ts,stories.tsx}!',
      'src/{main.tsx,theme-start.js,data/live-worker.ts}!',
    ),
    // Others import what it exports: agents.
    'packages/sdk': { ...ofPackage('src/wardline-agent.ts!'), includeEntryExports: false },
    'packages/policy': ofPackage(),
    'packages/server': ofPackage(),
    'packages/text': ofPackage(),
  },
})
