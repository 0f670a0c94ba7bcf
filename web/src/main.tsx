import './style.css';
import { render } from 'preact';
import { start } from './state';
import { readTheme } from './theme';
import { App } from './views/App';

readTheme();
render(<App />, document.getElementById('app')!);
void start();
