import "./style/base.css";
import "./style/layout.css";
import "./style/components.css";
import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./theme";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
