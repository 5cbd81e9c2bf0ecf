import { useState } from 'react'
import { readStored, store } from '../data/storage.ts'

/** Also read by theme-start.js, which runs before the first paint. */
const stored = 'wardline.theme'
const themes = ['system', 'dark', 'light'] as const
type Theme = (typeof themes)[number]

const current = (): Theme => themes.find((theme) => theme === readStored(stored)) ?? 'system'

function nextTheme(): Theme {
  const theme = themes[(themes.indexOf(current()) + 1) % themes.length]!
  store(stored, theme)
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme
  return theme
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(current)
  return [theme, () => setTheme(nextTheme())]
}
